package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
)

const mutationsAnObject = 24

func main() {
	corpus := flag.String("corpus", "corpus", "folder of the objects")
	golden := flag.String("golden", "", "folder that the answers are written to")
	mutants := flag.Int("mutations", mutationsAnObject, "generated variations an object, and half as many updates")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	// Pintle lets pods be privileged, as kubeadm's clusters do.
	capabilities.Setup(true, 0)
	if err := run(*corpus, *golden, *mutants); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(corpus, golden string, mutants int) error {
	files, err := answers(corpus, mutants)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(golden, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// answer is a line of a golden file. The first of a group has the object, its
// defaults, row and columns; those after it differ from it by Edit, and tell
// where the outcome differs: Defaulted from the first's, Stored from what was
// Defaulted (of an update: from the stored object), Row if it is another.
type answer struct {
	Group     string         `json:"group"`
	Object    map[string]any `json:"object,omitempty"`
	Verb      string         `json:"verb"`
	Edit      edit           `json:"edit,omitempty"`
	Errors    []string       `json:"errors,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	Defaulted map[string]any `json:"defaulted,omitempty"`
	Stored    map[string]any `json:"stored,omitempty"`
	Row       []any          `json:"row,omitempty"`
	Columns   any            `json:"columns,omitempty"`
}

func answers(corpus string, mutants int) (map[string][]byte, error) {
	groups, err := readCorpus(corpus)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	j := newJudge()
	for _, file := range sortedKeys(groups) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		for _, g := range groups[file] {
			lines, err := j.group(g, mutants)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, g.Name, err)
			}
			for _, l := range lines {
				if err := enc.Encode(l); err != nil {
					return nil, err
				}
			}
		}
		out[file+".jsonl"] = b.Bytes()
	}
	return out, nil
}

func (j *judge) group(g group, mutants int) ([]answer, error) {
	first, err := j.create(g.Object)
	if err != nil {
		return nil, err
	}
	head := answer{Group: g.Name, Object: g.Object, Verb: "create", Errors: first.Errors, Warnings: first.Warnings,
		Defaulted: first.Defaulted, Row: first.Row, Columns: first.Columns}
	if first.Stored != nil {
		head.Stored = difference(first.Defaulted, first.Stored)
	}
	out := []answer{head}

	// The seed is the group's name, so that one group's draw leaves the
	// others' alone.
	h := fnv.New64a()
	h.Write([]byte(g.Name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	if g.Mutations != nil {
		mutants = *g.Mutations
	}
	drawn := mutations(r, g.Object, mutants)
	drawnUpdates := mutations(r, g.Object, mutants/2)

	do := func(verb string, e edit, generated bool) error {
		in, err := apply(g.Object, e)
		if err != nil {
			return fmt.Errorf("%s %v: %w", verb, e, err)
		}
		var v verdict
		a := answer{Group: g.Name, Verb: verb, Edit: e}
		if verb == "create" {
			v, err = j.create(in)
		} else {
			v, err = j.update(in, g.Object, sub(verb))
		}
		if errors.Is(err, errUnreadable) && generated {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s %v: %w", verb, e, err)
		}
		a.Errors, a.Warnings = v.Errors, v.Warnings
		if verb == "create" {
			a.Defaulted = difference(first.Defaulted, v.Defaulted)
			if fmt.Sprint(v.Row) != fmt.Sprint(first.Row) {
				a.Row = v.Row
			}
		}
		if v.Stored != nil {
			a.Stored = difference(v.Defaulted, v.Stored)
		}
		out = append(out, a)
		return nil
	}
	for _, set := range []struct {
		verb      string
		edits     []edit
		generated bool
	}{{"create", g.Create, false}, {"update", g.Update, false}, {"create", drawn, true}, {"update", drawnUpdates, true}} {
		for _, e := range set.edits {
			if err := do(set.verb, e, set.generated); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range sortedKeys(g.Sub) {
		for _, e := range g.Sub[name] {
			if err := do(name, e, false); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// sub is the subresource a verb goes to.
func sub(verb string) string {
	if verb == "update" {
		return ""
	}
	return verb
}
