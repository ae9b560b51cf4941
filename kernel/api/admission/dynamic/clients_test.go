package dynamic

import (
	"errors"
	"net/http"
	"testing"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// The server does not ask itself.
func TestItself(t *testing.T) {
	plain := func(string) (*rest.Config, error) { return &rest.Config{}, nil }
	clients := BoundedClients(nil)(&webhookutil.AuthenticationInfoResolverDelegator{ClientConfigForFunc: plain,
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil }})
	for _, port := range []int{443, 6443} {
		if err := refusal(clients.ClientConfigForService("kubernetes", "default", port)); !errors.Is(err, errItself) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if err := refusal(clients.ClientConfigFor("kubernetes.default.svc:443")); !errors.Is(err, errItself) {
		t.Errorf("by its name: %v", err)
	}
	if cfg, err := clients.ClientConfigForService("kubernetes", "other", 443); err != nil || cfg.WrapTransport == nil {
		t.Errorf("of another namespace: %v", err)
	}
}

// refusal is what a client of the configuration meets.
func refusal(cfg *rest.Config, err error) error {
	if err != nil {
		return err
	}
	_, err = cfg.WrapTransport(http.DefaultTransport).RoundTrip(&http.Request{})
	return err
}
