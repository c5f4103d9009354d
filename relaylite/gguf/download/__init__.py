"""The only door to the network: model files from the Hugging Face hub into its own cache, resumed, checked, shared with other tools.

Other modules import from here, not from the modules in this folder. Importing it loads nothing of huggingface_hub.
"""

from relaylite.gguf.download.cache import cached, remove
from relaylite.gguf.download.fetching import Progress, fetch, trouble
from relaylite.gguf.download.remote import Remote, endpoint, parse_remote

__all__ = ["Progress", "Remote", "cached", "endpoint", "fetch", "parse_remote", "remove", "trouble"]
