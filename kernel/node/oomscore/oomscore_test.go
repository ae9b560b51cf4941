package oomscore

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProtect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	if err := os.WriteFile(file, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if score, err := protect(file); score != Kubelet || err != nil {
		t.Errorf("%d %v", score, err)
	}
	if err := os.WriteFile(file, []byte("none\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // root writes it all the same
		if _, err := protect(file); err == nil {
			t.Error("what is no score was taken for one")
		}
	}
	if score, err := protect(filepath.Join(t.TempDir(), "none", "oom_score_adj")); score != 0 || err != nil {
		t.Errorf("without scores: %d %v", score, err)
	}
	// This process: either it may, or the error says what it lacks and the score is what it was.
	before, _ := os.ReadFile(own)
	if score, err := Protect(); err == nil && score != Kubelet && len(before) > 0 {
		t.Errorf("score %d without an error", score)
	}
}

// TestLeast: a pod of the node's own priority is never below the shims.
func TestLeast(t *testing.T) {
	for process, want := range map[int]int64{-999: -997, 0: 2, 998: 1000, 1000: 1000} {
		if got := Least(process); got != want {
			t.Errorf("%d: %d, want %d", process, got, want)
		}
	}
}
