package main

import (
	"bytes"
	"os"
	"testing"
)

// TestRolesAreCurrent fails when upstream's version changed and the roles that
// Pintle's are compared with were not written anew (make peer-goldens).
func TestRolesAreCurrent(t *testing.T) {
	const golden = "../../../kernel/api/testdata/peer/bootstrap-roles.json"
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
