"""The only door to llama_cpp: model file, vocabulary, context and sampler, as plain Python objects.

Other modules import from here, not from the modules in this folder. Importing it costs 0.2 s; only the engine does.
"""

from relaylite.engine.llama.backend import start
from relaylite.engine.llama.context import Context, ContextOptions
from relaylite.engine.llama.loading import Load
from relaylite.engine.llama.log import last_error
from relaylite.engine.llama.logprobs import logprob_of
from relaylite.engine.llama.model import Model, Sketch
from relaylite.engine.llama.sampler import Sampler
from relaylite.engine.llama.vocab import Vocab

__all__ = ["Context", "ContextOptions", "Load", "Model", "Sampler", "Sketch", "Vocab", "last_error", "logprob_of", "start"]
