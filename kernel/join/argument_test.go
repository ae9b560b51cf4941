package join

import (
	"net/url"
	"strings"
	"testing"

	"k8s.io/cluster-bootstrap/util/tokens"
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

// FuzzArgument: what is read is a token as kubeadm reads one, and an address that a URL
// takes as it is. It is read again as the same. What is refused does not show the secret.
func FuzzArgument(f *testing.F) {
	const token = "abcdef." + someSecret
	for _, text := range []string{
		token + "@10.0.0.5:7443/" + someHash, token + "@kernel.example.com/" + someHash, token + "@[2001:db8::1]/" + someHash, token + "@2001:db8::1/" + someHash,
		token + "@[10.0.0.5/" + someHash, token + "@10.0.0.5:6443", token + "@a@b/" + someHash, token + "@:1/" + someHash, token + "@10.0.0.5:+1/" + someHash, "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArgument(text)
		if err != nil {
			before, _, ok := strings.Cut(text, "@")
			if _, secret, valid := parsed(before); ok && valid && strings.Count(text, secret) == 1 && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error has the secret: %v", text, err)
			}
			return
		}
		if again, err := ParseArgument(a.String()); err != nil || again != a {
			t.Errorf("%q is read as %+v, then as %+v, %v", text, a, again, err)
		}
		if _, _, valid := parsed(a.ID + "." + a.Secret); !valid {
			t.Errorf("%q: the token is none: %+v", text, a)
		}
		u, err := url.Parse(a.url())
		if err != nil || u.Host != a.Server || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q: the URL %s is read as %+v, %v", text, a.url(), u, err)
		}
	})
}

func parsed(text string) (id, secret string, ok bool) {
	id, secret, err := tokens.ParseToken(text)
	return id, secret, err == nil
}
