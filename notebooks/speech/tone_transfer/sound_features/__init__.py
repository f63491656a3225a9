"""What is kept of a sound, how two are compared, what is refused: `analysis`, `loss`,
`sound_input`.
"""
