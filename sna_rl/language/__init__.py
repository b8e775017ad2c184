"""Language models on the separable core: decoders, state–constraint decoupling, chaotic dynamics."""
