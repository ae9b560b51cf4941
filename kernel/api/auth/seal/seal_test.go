package seal

import (
	"bytes"
	"errors"
	"testing"
)

// Only the same secret, purpose and place open what was sealed, and only when it is whole.
func TestSeal(t *testing.T) {
	secret, text := bytes.Repeat([]byte("s"), 32), []byte("the key of tokens")
	sealed, err := Seal(secret, "purpose", "place", text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Open(secret, "purpose", "place", sealed); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%q, %v", got, err)
	}
	if again, err := Seal(secret, "purpose", "place", text); err != nil || bytes.Equal(again, sealed) || bytes.Contains(sealed, text) {
		t.Error("the same twice, or in the clear")
	}
	for i := range sealed {
		flipped := bytes.Clone(sealed)
		flipped[i] ^= 1
		if _, err := Open(secret, "purpose", "place", flipped); !errors.Is(err, ErrOpen) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Open(secret, "purpose", "place", sealed[:i]); !errors.Is(err, ErrOpen) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	for name, open := range map[string]func() ([]byte, error){
		"secret":  func() ([]byte, error) { return Open(bytes.Repeat([]byte("x"), 32), "purpose", "place", sealed) },
		"purpose": func() ([]byte, error) { return Open(secret, "other", "place", sealed) },
		"place":   func() ([]byte, error) { return Open(secret, "purpose", "other", sealed) },
	} {
		if _, err := open(); !errors.Is(err, ErrOpen) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
