package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"pintle.dev/pintle/kernel/bootstraptokens"
	"pintle.dev/pintle/kernel/join"
)

// The table of tokens is kubeadm's.
func TestTokenTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 8, 3, ' ', 0)
	printTokens(w, []bootstraptokens.Token{
		{ID: "abcdef", Secret: "0123456789abcdef", Expires: now.Add(23 * time.Hour), Usages: []string{"authentication", "signing"}, Groups: []string{"system:bootstrappers:x"}},
		{ID: "bbbbbb", Secret: "0123456789abcdef", Usages: []string{"signing"}, Description: "for the rack"},
		{ID: "cccccc", Secret: "0123456789abcdef", Expires: now.Add(-time.Second)},
	}, now)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"TOKEN TTL EXPIRES USAGES DESCRIPTION EXTRA GROUPS",
		"abcdef.0123456789abcdef 23h 2026-01-03T02:04:05Z authentication,signing <none> system:bootstrappers:x",
		"bbbbbb.0123456789abcdef <forever> <never> signing for the rack <none>",
		"cccccc.0123456789abcdef <invalid> 2026-01-02T03:04:04Z <none> <none> <none>",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the table is\n%s", out.String())
	}
}

// The command is one that a machine can run; a server that is no host and port does not get
// into it.
func TestJoinCommand(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "kubernetes"}, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})}}
	token := bootstraptokens.Token{ID: "abcdef", Secret: "0123456789abcdef"}
	text, err := joinCommand(cfg, "https://[2001:db8::1]:6443", token)
	want, after := "echo 'abcdef.0123456789abcdef@[2001:db8::1]:6443/"+join.Hash(ca)+"' | ", " node --config configs/node.yaml --join-file -"
	if err != nil || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, after) {
		t.Errorf("%q, %v, want %q and %q", text, err, want, after)
	}
	for _, server := range []string{"https://", "https://a b", "https://host:99999", "https://host;reboot", "https://$(reboot)", "https://host`reboot`:6443"} {
		if text, err := joinCommand(cfg, server, token); err == nil {
			t.Errorf("%s: %s", server, text)
		}
	}
}
