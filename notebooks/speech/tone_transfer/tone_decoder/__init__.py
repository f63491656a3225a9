"""From pitch and loudness to controls: `networks`, `training`; what writes sample by sample:
`autoregressive`.
"""
