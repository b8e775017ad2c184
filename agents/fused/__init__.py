"""The gradient updates of SAC, TD3 and DQN, each as one graph over tensors."""
