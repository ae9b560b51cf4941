package join

import (
	"strings"
	"testing"
)

const (
	someHash   = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	someSecret = "zyxwvutsrqponmlk"
)

// What is an argument, and that no error tells the token's secret.
func TestArgument(t *testing.T) {
	const token = "abcdef." + someSecret
	for text, want := range map[string]struct{ server, fault string }{
		token + "@10.0.0.5:7443/" + someHash:              {"10.0.0.5:7443", ""},
		token + "@10.0.0.5/" + someHash:                   {"10.0.0.5:6443", ""},
		token + "@kernel.example.com/" + someHash:         {"kernel.example.com:6443", ""},
		token + "@[2001:db8::1]:7443/" + someHash:         {"[2001:db8::1]:7443", ""},
		token + "@[2001:db8::1]/" + someHash:              {"[2001:db8::1]:6443", ""},
		token + "@10.0.0.5/" + strings.ToUpper(someHash):  {"10.0.0.5:6443", ""},
		token + "@10.0.0.5:6443":                          {"", "the hash of the cluster's authority is missing"},
		token + "@10.0.0.5:6443/":                         {"", "the hash of the cluster's authority is missing"},
		token + "@10.0.0.5:6443/sha256:1234":              {"", "is no hash"},
		token + "@10.0.0.5:6443/sha1:" + someHash[7:]:     {"", "is no hash"},
		token + "@10.0.0.5:6443/" + someHash[7:]:          {"", "is no hash"},
		token + "@10.0.0.5:6443/" + someHash + "/x":       {"", "is no hash"},
		token + "@10.0.0.5:0/" + someHash:                 {"", "has no port"},
		token + "@10.0.0.5:65536/" + someHash:             {"", "has no port"},
		token + "@/" + someHash:                           {"", "is no address or name"},
		token + "@a b/" + someHash:                        {"", "is no address or name"},
		token + "@user@10.0.0.5/" + someHash:              {"", "is no address or name"},
		token + "@10.0.0.5?x=y/" + someHash:               {"", "is no address or name"},
		"abcdef." + someSecret + "0@10.0.0.5/" + someHash: {"", "is no bootstrap token"},
		"ABCDEF." + someSecret + "@10.0.0.5/" + someHash:  {"", "is no bootstrap token"},
		"abcdef" + someSecret + "@10.0.0.5/" + someHash:   {"", "is no bootstrap token"},
		"\n" + token + "@10.0.0.5/" + someHash:            {"", "is no bootstrap token"},
		token:                                             {"", "no @ behind a token"},
		"":                                                {"", "no @ behind a token"},
	} {
		a, err := ParseArgument(text)
		if want.fault != "" {
			if err == nil || !strings.Contains(err.Error(), want.fault) || strings.Contains(err.Error(), someSecret) {
				t.Errorf("%q: %v, want %q without the secret", text, err, want.fault)
			}
			continue
		}
		if err != nil || a.Server != want.server || a.ID != "abcdef" || a.Secret != someSecret || a.Hash != someHash {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
		if again, err := ParseArgument(a.String()); err != nil || again != a {
			t.Errorf("%q is read as %+v, %v", a, again, err)
		}
	}
}
