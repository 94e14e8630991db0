"""Talk to a wane server through the clients of Anthropic and OpenAI; see docs/python.md."""
from .ssp import KEYS, SSPError, ssp, with_ssp

__all__ = ["KEYS", "SSPError", "ssp", "with_ssp"]
__version__ = "0.1.0"
