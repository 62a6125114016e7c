"""The campaign worker: watches events, decides by rules, and makes every effect happen at most once.

The package root says what this is and which version it is, and imports nothing: `import worker` must stay cheap and
free of side effects, because every layer below pays for what stands here.
"""

__version__ = "0.2.0"
