// Nothing: what an empty Node process costs.
