package reconcile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// script is a file of steps. Its name is that of its namespace too.
type script struct {
	name  string
	steps []step
}

// step is what a client, or an agent of a node, does at once. What it names by a
// generated name is named as the recording does: web-(h1)-(1).
type step struct {
	// Step says what is done.
	Step string `json:"step"`
	// Nodes are made, and heartbeats keep them ready: 2 is named SCRIPT-2.
	Nodes []string `json:"nodes,omitempty"`
	// Silent nodes have no heartbeats from now on.
	Silent []string `json:"silent,omitempty"`
	// Create are objects as kubectl takes them.
	Create []map[string]any `json:"create,omitempty"`
	// Patch are merge patches.
	Patch []change `json:"patch,omitempty"`
	// Delete are deletions as clients ask for them.
	Delete []removal `json:"delete,omitempty"`
	// Evict are pods that the eviction subresource is asked for.
	Evict []string `json:"evict,omitempty"`
	// Pods are what agents do to pods.
	Pods []podChange `json:"pods,omitempty"`
	// Run has an agent start and end pods as they come, until the end of the step.
	Run bool `json:"run,omitempty"`
	// Until is a part of the recording that has to be there before the step ends.
	Until string `json:"until,omitempty"`
	// Quiet is how long nothing has to change before the step is recorded, where it is
	// more than the default.
	Quiet metav1.Duration `json:"quiet,omitempty"`
}

type change struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Subresource is empty or status.
	Subresource string         `json:"subresource,omitempty"`
	With        map[string]any `json:"with"`
}

type removal struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Propagation string `json:"propagation,omitempty"`
	// Grace is in seconds.
	Grace *int64 `json:"grace,omitempty"`
	// Force takes the finalizers away as soon as the object is deleted; before that a
	// controller might put them back.
	Force bool `json:"force,omitempty"`
}

// podChange is what an agent does to pods.
type podChange struct {
	// Of is a selector of labels; Names are names. One of them is set.
	Of    string   `json:"of,omitempty"`
	Names []string `json:"names,omitempty"`
	// First takes that many of them, in the order of their names; 0: all.
	First int `json:"first,omitempty"`
	// Node is where those without one are bound to; 1 where it is empty.
	Node string `json:"node,omitempty"`
	// Are is bound, ready, unready, succeeded, failed or gone.
	Are string `json:"are"`
	// Exit is the code of containers that failed.
	Exit int32 `json:"exit,omitempty"`
	// Condition is one more that pods get, with the status True.
	Condition string `json:"condition,omitempty"`
}

var podStates = []string{"bound", "ready", "unready", "succeeded", "failed", "gone"}

// readScripts reads all scripts, in the order of their names.
func readScripts(t *testing.T) []script {
	t.Helper()
	files, err := filepath.Glob("testdata/scripts/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []script
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		one, err := parseScript(strings.TrimSuffix(filepath.Base(file), ".yaml"), raw)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, other := range all {
			// What begins with the name of a script belongs to it.
			if strings.HasPrefix(one.name, other.name+"-") {
				t.Fatalf("%s: the name begins with that of script %s", file, other.name)
			}
		}
		all = append(all, one)
	}
	return all
}

func parseScript(name string, raw []byte) (script, error) {
	s := script{name: name}
	seen := map[string]bool{}
	for i, doc := range bytes.Split(raw, []byte("\n---\n")) {
		var one step
		if err := yaml.UnmarshalStrict(doc, &one); err != nil {
			return s, fmt.Errorf("step %d: %w", i+1, err)
		}
		if one.Step == "" || seen[one.Step] {
			return s, fmt.Errorf("step %d has no name of its own: %q", i+1, one.Step)
		}
		for _, p := range one.Pods {
			if (p.Of == "") == (len(p.Names) == 0) {
				return s, fmt.Errorf("step %q: pods have either of or names", one.Step)
			}
			if !slices.Contains(podStates, p.Are) {
				return s, fmt.Errorf("step %q: pods are one of %v, not %q", one.Step, podStates, p.Are)
			}
		}
		seen[one.Step] = true
		s.steps = append(s.steps, one)
	}
	return s, nil
}

// waits is how long a script has to wait for clocks, roughly.
func (s script) waits() (all time.Duration) {
	for _, one := range s.steps {
		all += one.Quiet.Duration
	}
	return all
}

func TestParseScript(t *testing.T) {
	for name, c := range map[string]struct{ text, fault string }{
		"steps":             {"step: a\n---\nstep: b\npods: [{of: app=x, are: ready}]\n", ""},
		"no name":           {"create: []\n", "no name of its own"},
		"the same name":     {"step: a\n---\nstep: a\n", "no name of its own"},
		"a key not known":   {"step: a\nmake: []\n", "unknown field"},
		"no pods":           {"step: a\npods: [{are: ready}]\n", "either of or names"},
		"a state not known": {"step: a\npods: [{of: a=b, are: fine}]\n", "not \"fine\""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseScript("x", []byte(c.text))
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("%v, want %q", err, c.fault)
			}
		})
	}
}
