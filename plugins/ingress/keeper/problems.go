package keeper

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/plugins/ingress/certificates"
	"pintle.dev/pintle/plugins/ingress/routes"
)

// mostEvents of one round. The others follow in later ones.
const mostEvents = 50

// saidKey is an event that was written, as long as what it says is so.
type saidKey struct {
	of              types.UID
	reason, message string
}

// sayProblems writes an event for each problem that was not there in the round before.
func (k *keeper) sayProblems(out routes.Output) {
	now := map[saidKey]bool{}
	left := mostEvents
	for _, p := range append(out.Problems, k.secretProblems(out.Certificates)...) {
		key := saidKey{p.Ingress.UID, p.Reason, p.Message}
		switch {
		case now[key]:
		case k.said[key]:
			now[key] = true
		case left > 0:
			left--
			now[key] = true
			k.recorder.Event(p.Ingress, corev1.EventTypeWarning, p.Reason, p.Message)
		}
	}
	k.said = now
}

// secretProblems are those of certificates: their Secrets, and hosts that they are not for.
func (k *keeper) secretProblems(all []routes.Certificate) []routes.Problem {
	var out []routes.Problem
	for _, c := range all {
		certificate, err := k.secrets.Get(c.Secret)
		add := func(reason, format string, args ...any) {
			out = append(out, routes.Problem{Ingress: c.Ingress, Reason: reason, Message: fmt.Sprintf(format, args...)})
		}
		switch {
		case errors.Is(err, certificates.ErrMissing):
			add(routes.MissingSecret, "Secret %q is not found; its hosts have a certificate that no client trusts", c.Secret.Name)
		case err != nil:
			add(routes.InvalidSecret, "Secret %q: %v", c.Secret.Name, err)
		case certificate != nil:
			for _, host := range c.Hosts {
				if fault := certificate.Leaf.VerifyHostname(nameFor(host)); fault != nil {
					add(routes.InvalidSecret, "The certificate of Secret %q is not for host %q", c.Secret.Name, host)
				}
			}
		}
	}
	return out
}

// nameFor is a name that a certificate of a host has to be for.
func nameFor(host string) string {
	if len(host) > 1 && host[0] == '*' {
		return "any" + host[1:]
	}
	return host
}
