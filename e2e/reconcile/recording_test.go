package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recording is what a script's objects were after each step.
type recording struct {
	steps  []string
	states map[string]state
}

func newRecording() *recording { return &recording{states: map[string]state{}} }

func (r *recording) add(step string, after state) {
	r.steps = append(r.steps, step)
	r.states[step] = after
}

func recordingPath(script string) string { return filepath.Join("testdata", "recorded", script+".txt") }

// format writes what changed by each step, a line a part: "+ name<tab>JSON" is new or
// changed, "- name" is gone.
func (r *recording) format() string {
	var out strings.Builder
	before := state{}
	for _, step := range r.steps {
		fmt.Fprintf(&out, "== %s\n", step)
		after := r.states[step]
		for _, line := range changes(before, after) {
			fmt.Fprintln(&out, line)
		}
		before = after
	}
	return out.String()
}

// changes are the lines between two states.
func changes(before, after state) []string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		old, had := before[key]
		value, has := after[key]
		switch {
		case !has:
			lines = append(lines, "- "+key)
		case !had || old != value:
			lines = append(lines, "+ "+key+"\t"+value)
		}
	}
	return lines
}

func parseRecording(text string) (*recording, error) {
	r, now, step := newRecording(), state{}, ""
	keep := func() {
		if step != "" {
			r.add(step, maps.Clone(now))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch mark, rest, _ := strings.Cut(line, " "); mark {
		case "==":
			keep()
			step = rest
		case "+":
			key, value, ok := strings.Cut(rest, "\t")
			if !ok {
				return nil, fmt.Errorf("no value in line %q", line)
			}
			now[key] = value
		case "-":
			if _, ok := now[rest]; !ok {
				return nil, fmt.Errorf("%q goes, and is not there", rest)
			}
			delete(now, rest)
		default:
			return nil, fmt.Errorf("no line of a recording: %q", line)
		}
	}
	keep()
	return r, nil
}

func readRecording(t *testing.T, script string) *recording {
	t.Helper()
	raw, err := os.ReadFile(recordingPath(script))
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v; make controller-goldens records it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseRecording(string(raw))
	if err != nil {
		t.Fatalf("%s: %v", recordingPath(script), err)
	}
	return r
}

func TestRecording(t *testing.T) {
	r := newRecording()
	r.add("one", state{"Pod a spec": "{}", "Event x: y: z": "1"})
	r.add("two", state{"Pod a spec": `{"b":1}`})
	r.add("three", state{"Pod a spec": `{"b":1}`})
	text := r.format()
	const want = "== one\n+ Event x: y: z\t1\n+ Pod a spec\t{}\n== two\n- Event x: y: z\n+ Pod a spec\t{\"b\":1}\n== three\n"
	if text != want {
		t.Errorf("have\n%s\nwant\n%s", text, want)
	}
	back, err := parseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range r.steps {
		if !maps.Equal(back.states[step], r.states[step]) {
			t.Errorf("%s came back as %v", step, back.states[step])
		}
	}
	for _, text := range []string{"== a\n- Pod\n", "== a\n+ Pod\n", "Pod\n"} {
		if _, err := parseRecording(text); err == nil {
			t.Errorf("%q is a recording", text)
		}
	}
}

// TestRecordingsAreOfScripts fails when a recording has no script, or other steps.
func TestRecordingsAreOfScripts(t *testing.T) {
	expected := map[string]bool{}
	for _, one := range readScripts(t) {
		expected[filepath.Base(recordingPath(one.name))] = true
		steps := []string{begin}
		for _, s := range one.steps {
			steps = append(steps, s.Step)
		}
		if have := readRecording(t, one.name).steps; !slices.Equal(have, steps) {
			t.Errorf("%s was recorded with the steps %q, has %q; run make controller-goldens", one.name, have, steps)
		}
	}
	files, err := os.ReadDir("testdata/recorded")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !expected[f.Name()] {
			t.Errorf("testdata/recorded/%s is of no script", f.Name())
		}
	}
}
