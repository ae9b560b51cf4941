package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/kubernetes/pkg/capabilities"
)

// TestAnswersAreCurrent fails when the corpus, the drawing of variations or
// upstream's version changed and the answers that Pintle is tested against were
// not written anew (make peer-goldens).
func TestAnswersAreCurrent(t *testing.T) {
	const golden = "../../../kernel/api/testdata/peer"
	capabilities.Setup(true, 0)
	want, err := answers("../corpus", mutationsAnObject)
	if err != nil {
		t.Fatal(err)
	}
	have, err := filepath.Glob(filepath.Join(golden, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(want) {
		t.Errorf("%d files of answers, want %d", len(have), len(want))
	}
	for name, data := range want {
		stored, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(stored, data) {
			t.Errorf("%s is not what upstream says; run make peer-goldens", name)
		}
	}
}
