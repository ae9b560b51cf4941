// Package reasons cleans the words of plugins before anybody is told of them: they
// reach conditions, events, explanations, terminals and logs.
//
// It owns what words may hold (no control characters, none that turn the direction
// of text, no broken UTF-8) and how long they may be. It imports nothing of the
// kernel. Words pass through Text and List when a guest's answer is taken in, once a
// verdict, and nobody behind it looks at them again.
package reasons
