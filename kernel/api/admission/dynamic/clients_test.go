package dynamic

import (
	"errors"
	"testing"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// The server does not ask itself.
func TestItself(t *testing.T) {
	plain := func(string) (*rest.Config, error) { return &rest.Config{}, nil }
	clients := boundedClients(nil)(&webhookutil.AuthenticationInfoResolverDelegator{ClientConfigForFunc: plain,
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil }})
	for _, port := range []int{443, 6443} {
		if _, err := clients.ClientConfigForService("kubernetes", "default", port); !errors.Is(err, errItself) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if _, err := clients.ClientConfigFor("kubernetes.default.svc:443"); !errors.Is(err, errItself) {
		t.Errorf("by its name: %v", err)
	}
	if cfg, err := clients.ClientConfigForService("kubernetes", "other", 443); err != nil || cfg.WrapTransport == nil {
		t.Errorf("of another namespace: %v", err)
	}
}
