package rig

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Figure is one measured value, with the goal it is held against.
type Figure struct {
	Name string `json:"name"`
	// Value is the best of Rounds: the round that other work on the machine
	// disturbed least.
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds,omitempty"`
	// AtMost and AtLeast are the goal; zero is none.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Reached is absent where there is no goal.
	Reached *bool  `json:"reached,omitempty"`
	Note    string `json:"note,omitempty"`
	// Peer is what another program reached in the same run; the goal is then
	// one for the ratio to it.
	Peer *Peer `json:"peer,omitempty"`
	// Floor is what the other program's own tests ask of it at least, elsewhere.
	Floor float64 `json:"floor,omitempty"`
	// Sides say more of what each reached.
	Sides []Side `json:"sides,omitempty"`
	// Skipped is why there is no value.
	Skipped string `json:"skipped,omitempty"`
}

// Most makes a figure of which less is better; goal 0 is none.
func Most(name, unit string, goal float64, rounds ...float64) Figure {
	f := Figure{Name: name, Unit: unit, Value: slices.Min(rounds), Rounds: rounds, AtMost: goal}
	if goal > 0 {
		ok := f.Value <= goal
		f.Reached = &ok
	}
	return f
}

// Least makes a figure of which more is better; goal 0 is none.
func Least(name, unit string, goal float64, rounds ...float64) Figure {
	f := Figure{Name: name, Unit: unit, Value: slices.Max(rounds), Rounds: rounds, AtLeast: goal}
	if goal > 0 {
		ok := f.Value >= goal
		f.Reached = &ok
	}
	return f
}

// With adds a note.
func (f Figure) With(format string, args ...any) Figure {
	f.Note = fmt.Sprintf(format, args...)
	return f
}

// Report is the content of one JSON file.
type Report struct {
	Benchmark  string    `json:"benchmark"`
	What       string    `json:"what"`
	Command    string    `json:"command"`
	Time       time.Time `json:"time"`
	Processors int       `json:"processors"`
	GoVersion  string    `json:"goVersion"`
	// Load is the machine's average of one minute before and after; the
	// benchmark itself adds to the latter.
	Load    [2]string `json:"load"`
	Figures []Figure  `json:"figures"`
	// Failed is why the rest is missing.
	Failed string `json:"failed,omitempty"`
}

// NewReport is the report of make bench-NAME. before is the machine's load before it.
func NewReport(name, what string, figures []Figure, before string) Report {
	return Report{
		Benchmark: name, What: what, Command: "make bench-" + name, Time: time.Now().UTC(),
		Processors: runtime.NumCPU(), GoVersion: runtime.Version(), Load: [2]string{before, LoadAverage()}, Figures: figures,
	}
}

// Print writes the table, for people.
func (r Report) Print(w io.Writer) {
	for _, f := range r.Figures {
		if f.Skipped != "" {
			fmt.Fprintf(w, "  %-44s skipped: %s (%s)\n", f.Name, f.Skipped, f.Note)
			continue
		}
		goal := ""
		switch {
		case f.AtMost > 0:
			goal = fmt.Sprintf("goal ≤ %g", f.AtMost)
		case f.AtLeast > 0:
			goal = fmt.Sprintf("goal ≥ %g", f.AtLeast)
		}
		if f.Peer != nil && goal != "" {
			goal += "x"
		}
		verdict := ""
		if f.Reached != nil {
			verdict = "missed"
			if *f.Reached {
				verdict = "reached"
			}
		}
		fmt.Fprintf(w, "  %-44s %10.1f %-7s %-14s %-8s", f.Name, f.Value, f.Unit, goal, verdict)
		if f.Peer != nil {
			fmt.Fprintf(w, " %s %.4g: %.2fx", f.Peer.Name, f.Peer.Value, f.Peer.Ratio)
		}
		if len(f.Rounds) > 1 {
			fmt.Fprintf(w, " rounds %s", Joined(f.Rounds))
		}
		if f.Peer != nil && len(f.Peer.Rounds) > 1 {
			fmt.Fprintf(w, " against %s", Joined(f.Peer.Rounds))
		}
		if f.Floor > 0 {
			fmt.Fprintf(w, " floor %g", f.Floor)
		}
		if f.Note != "" {
			fmt.Fprintf(w, " (%s)", f.Note)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  %d processors, load %s before, %s after\n", r.Processors, r.Load[0], r.Load[1])
}

// Write writes the JSON into a folder.
func (r Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Benchmark+".json"), append(raw, '\n'), 0o644)
}

// Joined are values in one line.
func Joined(values []float64) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf("%.0f", v)
		if v < 20 {
			words[i] = fmt.Sprintf("%.2f", v)
		}
	}
	return strings.Join(words, " ")
}

// LoadAverage is the machine's, of one minute.
func LoadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	word, _, _ := strings.Cut(string(raw), " ")
	return word
}

// Median of at least one value.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Peer is the other side of a comparison.
type Peer struct {
	Name   string    `json:"name"`
	Value  float64   `json:"value"`
	Rounds []float64 `json:"rounds,omitempty"`
	// Ratio is ours to theirs: the median over the rounds, since what else the
	// machine does changes between them.
	Ratio float64 `json:"ratio"`
}

// Beside makes a figure of a rate and that of a peer, measured in turns; goal is one for the
// ratio, 0 is none.
func Beside(name, unit, peer string, goal float64, ours, theirs []float64) Figure {
	f := Figure{Name: name, Unit: unit, Value: Median(ours), Rounds: ours, AtLeast: goal}
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	f.Peer = &Peer{Name: peer, Value: Median(theirs), Rounds: theirs, Ratio: Median(ratios)}
	if goal > 0 {
		ok := f.Peer.Ratio >= goal
		f.Reached = &ok
	}
	return f
}

// Side is an outcome as it stands in the JSON.
type Side struct {
	Name        string    `json:"name"`
	PodsASecond []float64 `json:"podsASecond"`
	Created     float64   `json:"createdASecond,omitempty"`
	ProcessorUs float64   `json:"processorMicrosecondsAPod"`
	ClientUs    float64   `json:"clientMicrosecondsAPod"`
	P50         float64   `json:"p50Milliseconds,omitempty"`
	P99         float64   `json:"p99Milliseconds,omitempty"`
	Resident    float64   `json:"residentMB"`
}
