package plugincmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// What a bundle asks for beyond the version in use wants a yes: from a person, or
// by the flag. A bundle that asks for nothing is not asked about.
func TestConsent(t *testing.T) {
	rule := func(resource string) manifest.Rule {
		return manifest.Rule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	pods := &manifest.Manifest{Name: "b", Version: "1.0.0", Rules: []manifest.Rule{rule("pods")}}
	secrets := &manifest.Manifest{Name: "b", Version: "2.0.0", Rules: []manifest.Rule{rule("pods"), rule("secrets")}}
	for _, test := range []struct {
		what    string
		asked   catalog.Asked
		consent consent
		says    string // what is shown
		refused string // empty: it is taken
	}{
		{"nothing", catalog.Asked{Manifest: &manifest.Manifest{}}, consent{}, "", ""},
		{"nobody there", catalog.Asked{Manifest: pods}, consent{}, "asks for:\n  rules of the bundle: get: pods", "nobody is there to say yes"},
		{"the flag", catalog.Asked{Manifest: pods}, consent{yes: true}, "get: pods", ""},
		{"yes", catalog.Asked{Manifest: pods}, consent{asks: true, in: strings.NewReader("Yes\n")}, "Install it? [y/N]", ""},
		{"no", catalog.Asked{Manifest: pods}, consent{asks: true, in: strings.NewReader("n\n")}, "Install it? [y/N]", "was not agreed to"},
		{"only return", catalog.Asked{Manifest: pods}, consent{asks: true, in: strings.NewReader("\n")}, "Install it? [y/N]", "was not agreed to"},
		{"an end", catalog.Asked{Manifest: pods}, consent{asks: true, in: strings.NewReader("")}, "Install it? [y/N]", "was not agreed to"},
		{"no more than before", catalog.Asked{Manifest: pods, Current: secrets}, consent{}, "", ""},
		{"more than before", catalog.Asked{Manifest: secrets, Current: pods}, consent{}, "asks for what version 1.0.0, which is in use, does not:\n  rules of the bundle: get: secrets", "nobody is there"},
	} {
		t.Run(test.what, func(t *testing.T) {
			var out bytes.Buffer
			test.consent.out = &out
			err := test.consent.confirm(&test.asked)
			if test.refused == "" && err != nil || test.refused != "" && (!errors.Is(err, catalog.ErrOperator) || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("%v, want %q", err, test.refused)
			}
			if !strings.Contains(out.String(), test.says) || test.says == "" && out.Len() > 0 {
				t.Errorf("shown: %q, want %q", out.String(), test.says)
			}
			if strings.Contains(test.what, "more than before") && strings.Contains(out.String(), "pods") {
				t.Errorf("shown again: %q", out.String())
			}
		})
	}
}
