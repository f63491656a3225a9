"""In processes that a rehearsed chapter starts: the device is pretended as soon as torch is imported.

Python reads this file at its start where its folder is on PYTHONPATH, which `rehearsal.chapter` sees to.
"""

import importlib.abc
import importlib.util
import sys


class AfterTorch(importlib.abc.MetaPathFinder):
    """Lets others find torch, and installs the device once it is imported."""

    asking = False

    def find_spec(self, name, path=None, target=None):
        """None but for torch, whose own spec comes back with one step more at its end."""
        if name != "torch" or self.asking:
            return None
        self.asking = True  # others look for torch without importing it, so this stays in place
        try:
            found = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if found is not None:
            execute = found.loader.exec_module

            def exec_module(module):
                execute(module)
                from rehearsal import device

                device.install()

            found.loader.exec_module = exec_module
        return found


sys.meta_path.insert(0, AfterTorch())
