package plugin

import (
	"pintle.dev/pintle/kernel/plugin/output"
)

// tellDropped logs what was dropped and not told.
func (u *unit) tellDropped() {
	if lines := u.budget.Due(); lines > 0 {
		u.log.Warn(output.DroppedWords, "dropped", lines, "linesPerSecond", output.LogLines, "burst", output.LogBurst)
	}
}
