package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	// LegacyIssuer is the iss claim of tokens in Secrets.
	LegacyIssuer = "kubernetes/serviceaccount"
	// LastUsedLabel has the day on which a Secret's token was used last, and
	// InvalidSinceLabel takes it out of use.
	LastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	day = "2006-01-02"
)

// legacyClaims are the claims beyond RFC 7519.
type legacyClaims struct {
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// Names of upstream's metrics.
var (
	legacyTokens  = counter("legacy_tokens_total", "Cumulative legacy service account tokens used", metrics.ALPHA)
	legacyManual  = counter("legacy_manual_token_uses_total", "Cumulative manually created legacy tokens used", metrics.ALPHA)
	legacyAuto    = counter("legacy_auto_token_uses_total", "Cumulative auto-generated legacy tokens used", metrics.ALPHA)
	legacyInvalid = counter("invalid_legacy_auto_token_uses_total", "Cumulative invalid auto-generated legacy tokens used", metrics.ALPHA)
)

func counter(name, help string, level metrics.StabilityLevel) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: name, Help: help, StabilityLevel: level})
	legacyregistry.MustRegister(c)
	return c
}

// IssueLegacy returns the token of a Secret, which never ends.
func (i *Issuer) IssueLegacy(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	signer := i.keys.now.Load().signer
	if signer == nil {
		return "", errNoSigner
	}
	return jwt.Signed(signer).
		Claims(jwt.Claims{Issuer: LegacyIssuer, Subject: serviceaccount.MakeUsername(account.Namespace, account.Name)}).
		Claims(legacyClaims{Namespace: account.Namespace, Secret: secret.Name, Account: account.Name, AccountUID: string(account.UID)}).
		Serialize()
}

// LegacyAuthenticator turns the token of a Secret into a user. It implements
// authenticator.Token.
type LegacyAuthenticator struct {
	Keys *Keys
	// Audiences are those of the API server, which the tokens are for.
	Audiences []string
	Getter    Getter
	// Used notes in the Secret the day on which its token is used.
	Used func(ctx context.Context, secret *corev1.Secret, day string) error
	// Now is the clock; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

var _ authenticator.Token = (*LegacyAuthenticator)(nil)

// AuthenticateToken implements authenticator.Token.
func (a *LegacyAuthenticator) AuthenticateToken(ctx context.Context, data string) (*authenticator.Response, bool, error) {
	if !claimsIssuer(data, []string{LegacyIssuer}) {
		return nil, false, nil
	}
	parsed, err := jwt.ParseSigned(data, algorithms)
	if err != nil {
		return nil, false, nil
	}
	var (
		public  jwt.Claims
		private legacyClaims
	)
	if err := verify(a.Keys, parsed, &public, &private); err != nil {
		return nil, false, err
	}
	// The issuer was read before the signature was checked. A token for others is
	// none of these.
	if public.Issuer != LegacyIssuer || len(public.Audience) > 0 {
		return nil, false, fmt.Errorf("token issuer %q or its audiences %q are invalid", public.Issuer, []string(public.Audience))
	}
	if err := public.Validate(jwt.Expected{Time: a.now()}); err != nil {
		return nil, false, fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = a.Audiences
	}
	shared := authenticator.Audiences(a.Audiences).Intersect(wanted)
	if len(shared) == 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", a.Audiences, []string(wanted))
	}
	info, err := a.check(ctx, data, public.Subject, private)
	if err != nil {
		return nil, false, err
	}
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token", public.Subject)
	legacyTokens.Inc()
	return &authenticator.Response{User: info.UserInfo(), Audiences: shared}, true, nil
}

func (a *LegacyAuthenticator) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

var errRemoved = errors.New("Token has been invalidated")

// check makes sure that the Secret holds the token and that its service account lives.
func (a *LegacyAuthenticator) check(ctx context.Context, data, subject string, claims legacyClaims) (*serviceaccount.ServiceAccountInfo, error) {
	namespace, name, err := serviceaccount.SplitUsername(subject)
	if err != nil || namespace != claims.Namespace || name != claims.Account || claims.Secret == "" || claims.AccountUID == "" {
		return nil, errors.New("sub claim is invalid")
	}
	secret, err := a.Getter.GetSecret(ctx, namespace, claims.Secret)
	if err != nil || secret.DeletionTimestamp != nil || secret.Type != corev1.SecretTypeServiceAccountToken {
		return nil, errRemoved
	}
	if subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(data)) != 1 {
		return nil, errors.New("Token does not match server's copy")
	}
	account, err := a.Getter.GetServiceAccount(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, err
	case account.DeletionTimestamp != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", namespace, name)
	case string(account.UID) != claims.AccountUID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.UID, claims.AccountUID)
	}
	defer a.note(ctx, secret)
	if secret.Labels[InvalidSinceLabel] != "" {
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-invalidated", secret.Name+"/"+namespace)
		legacyInvalid.Inc()
		return nil, fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			namespace, secret.Name, namespace, name, InvalidSinceLabel)
	}
	if slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name }) {
		warning.AddWarning(ctx, "", "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.")
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-autogenerated-secret", secret.Name)
		legacyAuto.Inc()
	} else {
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-manual-secret", secret.Name)
		legacyManual.Inc()
	}
	return &serviceaccount.ServiceAccountInfo{Namespace: namespace, Name: name, UID: claims.AccountUID}, nil
}

// note writes the day of use, once a day. Kernels whose clocks differ agree on the later one.
func (a *LegacyAuthenticator) note(ctx context.Context, secret *corev1.Secret) {
	now := a.now().UTC()
	today, tomorrow := now.Format(day), now.AddDate(0, 0, 1).Format(day)
	if used := secret.Labels[LastUsedLabel]; used == today || used == tomorrow {
		return
	}
	if err := a.Used(ctx, secret, today); err != nil {
		a.Logger.Warn("the day of a token's use is not written to its Secret", "namespace", secret.Namespace, "secret", secret.Name, "error", err)
	}
}
