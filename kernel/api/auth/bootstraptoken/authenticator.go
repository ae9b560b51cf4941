package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// Authenticator implements authenticator.Token.
type Authenticator struct {
	// Secret reads a Secret.
	Secret func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

var _ authenticator.Token = (*Authenticator)(nil)

// AuthenticateToken implements authenticator.Token. What is no bootstrap token, or not
// a good one, is not its concern.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	id, shown, err := tokens.ParseToken(token)
	if err != nil {
		return nil, false, nil
	}
	secret, err := a.Secret(ctx, metav1.NamespaceSystem, bootstrapapi.BootstrapTokenSecretPrefix+id)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	groups, ok := good(secret, id, shown, now())
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: bootstrapapi.BootstrapUserPrefix + id, Groups: groups}}, true, nil
}

// good says whether a Secret is that of a token, and which groups it gives.
func good(secret *corev1.Secret, id, shown string, now time.Time) ([]string, bool) {
	if secret.Type != bootstrapapi.SecretTypeBootstrapToken || secret.DeletionTimestamp != nil {
		return nil, false
	}
	if subtle.ConstantTimeCompare(secret.Data[bootstrapapi.BootstrapTokenSecretKey], []byte(shown)) != 1 ||
		string(secret.Data[bootstrapapi.BootstrapTokenIDKey]) != id ||
		string(secret.Data[bootstrapapi.BootstrapTokenUsageAuthentication]) != "true" ||
		secrets.HasExpired(secret, now) {
		return nil, false
	}
	groups, err := secrets.GetGroups(secret)
	return groups, err == nil
}
