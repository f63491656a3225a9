"""The browser's side: the decoder as a file, `export`; a page for test and race, `live_site`;
the scripts.
"""
