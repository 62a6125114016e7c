"""When and in which order the service is read: the plan, the one gate and the pace.

It knows neither what is read nor how: a request is handed in as a function. It never talks to the network, reads no
clock of its own and draws no chance of its own.
"""
