"""The acts of a student's notebook: the class `Acts` is copied into the module beside it, and needs nothing else."""

RIGHT = ("✗ Not yet.", "✓ Right.")


class Acts:
    """`answer` a question, `guess` a number, and `compare` the guess with what was measured; each prints its reply."""

    def __init__(self, acts):
        self.acts, self.guesses = acts, {}

    def answer(self, name, given):
        """None; prints the reply to a letter, or to all letters in your order."""
        right, replies, letters = (self.acts[name][key] for key in ("right", "replies", "letters"))
        given = "".join(letter for letter in str(given or "").lower() if letter.isalnum())
        if not given:
            print("No answer yet: put it in the place of None.")
        elif given == right or given in replies:
            print(RIGHT[given == right], replies.get(given) or replies[""])
        elif len(right) > 1 and sorted(given) == sorted(right):
            there = sum(one == other for one, other in zip(given, right, strict=True))
            print(RIGHT[False], f"{there} of {len(right)} stand where they belong.")
        else:
            many = "each" if len(right) > 1 else "one"
            print(f"{given!r} is no answer: {many} of the letters {letters} is wanted.")

    def guess(self, name, value):
        """None; keeps a number."""
        if value is None:
            print("No guess yet: put a number in the place of None.")
        else:
            self.guesses[name] = float(value)
            print(f"Kept: {self.guesses[name]:g}. The measurement stands beside it at the end of this section.")

    def compare(self, name, receipt):
        """None; prints your guess beside what the receipt measured."""
        print(self.beside(name, receipt), self.acts[name]["replies"][""])

    def recap(self, receipt):
        """None; prints all guesses beside what was measured."""
        for name in (name for name, own in self.acts.items() if own["metric"]):
            print(f"{name.replace('_', ' ')}: {self.beside(name, receipt)}")

    def beside(self, name, receipt):
        """A guess beside its measurement, in words."""
        guess, metric = self.guesses.get(name), receipt.metrics.get(self.acts[name]["metric"])
        said = "You made no guess" if guess is None else f"You guessed {guess:g}"
        if metric is None:
            return f"{said}; nothing is measured yet."
        value, within = metric["value"], self.acts[name]["within"] or 2
        said += f"; measured: {value:,.4g} {metric['unit']}."
        if guess is None:
            return said
        off = max(guess / value, value / guess) if guess * value > 0 else 0
        far = f"off by a factor of {float(f'{off:.3g}'):g}"
        near = f"close, within a factor of {within:g}" if off <= within else far
        return f"{said} That is {near if off else 'exact' if guess == value else 'not close'}."
