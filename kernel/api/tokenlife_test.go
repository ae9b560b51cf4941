package api_test

import (
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
)

// Nobody mints a token for longer than the server allows, whatever account it is of.
func TestTokenLife(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(cfg *api.Config) { cfg.MaxTokenExpiration = 24 * time.Hour })
	for _, tt := range []struct {
		name        string
		ask, want   int64
		wantWarning bool
	}{
		{"within", 7200, 7200, false},
		{"a day", 86400, 86400, false},
		{"a century", 1 << 32, 86400, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := kubeconfig(s)
			if err != nil {
				t.Fatal(err)
			}
			var warned warnings
			cfg.WarningHandler = &warned
			c := kubernetes.NewForConfigOrDie(cfg)
			out, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &tt.ask}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if *out.Spec.ExpirationSeconds != tt.want {
				t.Errorf("lives %d s, want %d", *out.Spec.ExpirationSeconds, tt.want)
			}
			said := warned.all()
			if (len(said) == 1) != tt.wantWarning {
				t.Errorf("warnings %q", said)
			}
			if want := fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", tt.ask, tt.want); tt.wantWarning && said[0] != want {
				t.Errorf("warning %q, want %q", said[0], want)
			}
		})
	}
}
