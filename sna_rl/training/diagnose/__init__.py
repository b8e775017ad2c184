"""How separable a critic is: value tables of any agent, null rows, a verdict, figures."""
