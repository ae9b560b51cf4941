package token

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
)

// maxToken bounds what is parsed; a bound token has about 1.2 KB.
const maxToken = 64 << 10

// Getter looks up the objects tokens are bound to. Answers must be current:
// a deleted object has to be NotFound soon after.
type Getter interface {
	GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	GetNode(ctx context.Context, name string) (*corev1.Node, error)
}

// Config of an Authenticator.
type Config struct {
	// Issuers are the accepted iss claims.
	Issuers []string
	// Keys verify signatures.
	Keys *Keys
	// Audiences are those of the API server itself; they apply to requests
	// that ask for none.
	Audiences []string
	Getter    Getter
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Authenticator turns a service-account token into a user. It implements
// authenticator.Token: a string that is no token of its issuers is not its
// concern (no user, no error).
type Authenticator struct{ cfg Config }

var _ authenticator.Token = (*Authenticator)(nil)

// NewAuthenticator checks the configuration.
func NewAuthenticator(cfg Config) (*Authenticator, error) {
	if len(cfg.Issuers) == 0 || cfg.Keys == nil || cfg.Getter == nil {
		return nil, errors.New("token authenticator: issuers, keys and getter are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Authenticator{cfg: cfg}, nil
}

// AuthenticateToken implements authenticator.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, data string) (*authenticator.Response, bool, error) {
	if !claimsIssuer(data, a.cfg.Issuers) {
		return nil, false, nil
	}
	parsed, err := jwt.ParseSigned(data, algorithms)
	if err != nil {
		return nil, false, nil
	}
	var (
		public  jwt.Claims
		private privateClaims
	)
	if err := verify(a.cfg.Keys, parsed, &public, &private); err != nil {
		return nil, false, err
	}
	// The issuer was read before the signature was checked.
	if !slices.Contains(a.cfg.Issuers, public.Issuer) {
		return nil, false, fmt.Errorf("token issuer %q is invalid", public.Issuer)
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = a.cfg.Audiences
	}
	shared := authenticator.Audiences(public.Audience).Intersect(wanted)
	if len(shared) == 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(public.Audience), []string(wanted))
	}
	if err := a.checkTimes(public); err != nil {
		return nil, false, err
	}
	info, err := a.checkObjects(ctx, private.Kubernetes)
	if err != nil {
		return nil, false, err
	}
	info.CredentialID = authenticationjwt.CredentialIDForJTI(public.ID)
	if stale := private.Kubernetes.WarnAfter; stale != nil {
		if over := a.cfg.Now().Unix() - stale.Time().Unix(); over > 0 {
			audit.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token",
				fmt.Sprintf("subject: %s, seconds after warning threshold: %d", public.Subject, over))
		}
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: shared}, true, nil
}

// claimsIssuer says whether the string looks like a JWT of one of these issuers;
// nothing in it is trusted yet.
func claimsIssuer(data string, issuers []string) bool {
	if len(data) > maxToken {
		return false
	}
	_, rest, ok := strings.Cut(data, ".")
	if !ok {
		return false
	}
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(decoded, &claims) != nil {
		return false
	}
	return slices.Contains(issuers, claims.Issuer)
}

func verify(keys *Keys, parsed *jwt.JSONWebToken, dest ...any) error {
	now := keys.now.Load()
	if now == nil {
		return errNoKey
	}
	candidates := now.verify
	var alg string
	for _, header := range parsed.Headers {
		alg = header.Algorithm
		if header.KeyID == "" {
			continue
		}
		key, ok := now.verify[header.KeyID]
		if !ok {
			return errNoKey
		}
		candidates = map[string]jose.JSONWebKey{header.KeyID: key}
		break
	}
	var errs []error
	for _, key := range candidates {
		// A key is for one algorithm, whatever the token says.
		if key.Algorithm != alg {
			continue
		}
		err := parsed.Claims(key.Key, dest...)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return errNoKey
	}
	return errors.Join(errs...)
}

var errNoKey = errors.New("invalid signature, no keys found")

func (a *Authenticator) checkTimes(public jwt.Claims) error {
	// Expiry is required: go-jose accepts a token without one.
	if public.Expiry == nil {
		return errors.New("service account token has expired")
	}
	err := public.Validate(jwt.Expected{Time: a.cfg.Now()})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	default:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
}

var errInvalidated = errors.New("service account token has been invalidated")

// checkObjects makes sure that what the token is bound to still lives.
func (a *Authenticator) checkObjects(ctx context.Context, claims kubernetesClaims) (*serviceaccount.ServiceAccountInfo, error) {
	// An object on its way out counts as gone once the leeway is over.
	gone := a.cfg.Now().Add(-jwt.DefaultLeeway)
	namespace, account := claims.Namespace, claims.ServiceAccount
	sa, err := a.cfg.Getter.GetServiceAccount(ctx, namespace, account.Name)
	if err != nil {
		return nil, err
	}
	if string(sa.UID) != account.UID {
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", sa.UID, account.UID)
	}
	if deletedBefore(sa.DeletionTimestamp, gone) {
		return nil, fmt.Errorf("service account %s/%s has been deleted", namespace, account.Name)
	}
	info := &serviceaccount.ServiceAccountInfo{Namespace: namespace, Name: account.Name, UID: account.UID}

	if ref := claims.Secret; ref != nil {
		secret, err := a.cfg.Getter.GetSecret(ctx, namespace, ref.Name)
		if err != nil {
			return nil, errInvalidated
		}
		if err := sameObject("secret", ref, secret.UID, secret.DeletionTimestamp, gone); err != nil {
			return nil, err
		}
	}
	if ref := claims.Pod; ref != nil {
		pod, err := a.cfg.Getter.GetPod(ctx, namespace, ref.Name)
		if err != nil {
			return nil, errInvalidated
		}
		if err := sameObject("pod", ref, pod.UID, pod.DeletionTimestamp, gone); err != nil {
			return nil, err
		}
		info.PodName, info.PodUID = ref.Name, ref.UID
	}
	if ref := claims.Node; ref != nil {
		// Beside a pod the node is information, not a binding.
		if claims.Pod == nil {
			node, err := a.cfg.Getter.GetNode(ctx, ref.Name)
			if err != nil {
				return nil, errInvalidated
			}
			if err := sameObject("node", ref, node.UID, node.DeletionTimestamp, gone); err != nil {
				return nil, err
			}
		}
		info.NodeName, info.NodeUID = ref.Name, ref.UID
	}
	return info, nil
}

func sameObject(kind string, ref *reference, uid types.UID, deleted *metav1.Time, gone time.Time) error {
	if string(uid) != ref.UID {
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", kind, uid, kind, ref.UID)
	}
	if deletedBefore(deleted, gone) {
		return errInvalidated
	}
	return nil
}

func deletedBefore(deleted *metav1.Time, limit time.Time) bool {
	return deleted != nil && deleted.Time.Before(limit)
}
