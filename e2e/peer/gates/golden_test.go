package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGatesAreCurrent fails when upstream's version changed and the gates that
// Pintle knows were not written anew (make peer-goldens).
func TestGatesAreCurrent(t *testing.T) {
	const golden = "../../../kernel/features/gates.txt"
	want, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what upstream says; run make peer-goldens", golden)
	}
}
