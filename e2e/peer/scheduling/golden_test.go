package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestDecisionsAreCurrent fails when the drawing or upstream's version changed and
// the answers that Pintle is tested against were not written anew (make
// peer-goldens).
func TestDecisionsAreCurrent(t *testing.T) {
	f, err := os.Open("../../../kernel/peer/testdata/scheduling.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	have, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Register()
	var want bytes.Buffer
	if err := write(t.Context(), &want, checkedIn, 1, ""); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want.Bytes()) {
		t.Error("the checked-in answers are not what kube-scheduler says; run make peer-goldens")
	}
}
