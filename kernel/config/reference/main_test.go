package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
)

// TestReferenceIsCurrent compares the page with the schema.
func TestReferenceIsCurrent(t *testing.T) {
	want, err := page()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../configs/docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("configs/docs/reference.md is not what the schema says: run go generate ./kernel/config/reference")
	}
}

// TestReferenceHasEveryKey compares the page with the other view of the schema, what
// config show prints.
func TestReferenceHasEveryKey(t *testing.T) {
	text, err := page()
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	if err := config.Show(&shown, config.Default()); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]*\\|").FindAllStringSubmatch(string(text), -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[config.EnvName(row[1])] = true
	}
	variables := regexp.MustCompile(`PINTLE_[A-Z0-9_]+`).FindAllString(shown.String(), -1)
	if len(variables) < 100 {
		t.Fatalf("config show names %d variables; the test reads it wrongly", len(variables))
	}
	for _, variable := range variables {
		if !listed[variable] {
			t.Errorf("no row of the page is the key of %s", variable)
		}
	}
}
