"""A voice becomes an instrument, whole or in chunks: `transfer`; how the shipped ones were
made: `train_instruments`.
"""
