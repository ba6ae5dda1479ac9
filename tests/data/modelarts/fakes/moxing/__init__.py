"""Stands in for ModelArts' object store client: `moxing.file.copy` copies between local files.

After each copy it writes a line into the FIFO named by FAKE_MOXING_COPIED, so that a test needn't guess when.
FAKE_MOXING=fails makes every copy raise, FAKE_MOXING=hangs makes it block for ever.
"""

from moxing import file

__all__ = ["file"]
