package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const isc = `Copyright (c) 2020 Somebody

Permission to use, copy, modify, and distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES
WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF
OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

// A file counts by its text, not by its name.
func TestLicences(t *testing.T) {
	tests := []struct{ name, text, want, fault string }{
		{"known", isc, "ISC", ""},
		{"unknown", "You may use this on Sundays, and only if it rains.\n", "", "0 %"},
		{"mostly other words", isc + strings.Repeat("All of the above holds on Sundays alone. ", 100), "ISC", "only"},
		{"empty", "", "", "only"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "LICENSE")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			ids, err := licences(file)
			if strings.Join(ids, ",") != test.want || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%q, %v; want %q and %q", ids, err, test.want, test.fault)
			}
		})
	}
	t.Run("not allowed", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "LICENSE")
		if err := os.WriteFile(file, []byte(isc), 0o600); err != nil {
			t.Fatal(err)
		}
		reason := allowed["ISC"]
		delete(allowed, "ISC")
		defer func() { allowed["ISC"] = reason }()
		if _, err := licences(file); err == nil || !strings.Contains(err.Error(), "ISC is not in the list") {
			t.Error(err)
		}
	})
}

// The nearest file counts, and none outside of the module.
func TestNearest(t *testing.T) {
	root := filepath.Join(t.TempDir(), "m")
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(isc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(filepath.Dir(root), "LICENSE"))
	if file, err := nearest(deep, root); err == nil {
		t.Errorf("found %s outside of the module", file)
	}
	write(filepath.Join(root, "COPYING.txt"))
	write(filepath.Join(root, "a", "license.go"))
	if file, err := nearest(deep, root); err != nil || filepath.Base(file) != "COPYING.txt" {
		t.Errorf("%s, %v", file, err)
	}
	write(filepath.Join(root, "a", "LICENCE"))
	if file, err := nearest(deep, root); err != nil || filepath.Base(file) != "LICENCE" {
		t.Errorf("%s, %v", file, err)
	}
}
