package bootstraptokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// NodeGroup is the group of tokens by which nodes join: kubeadm's.
const NodeGroup = "system:bootstrappers:kubeadm:default-node-token"

// Token is a bootstrap token.
type Token struct {
	// ID and Secret are its two halves; only the secret is one.
	ID, Secret  string
	Description string
	// Expires is zero for one without an end.
	Expires time.Time
	// Usages are of signing and authentication. Groups come besides system:bootstrappers,
	// and begin with that and a colon.
	Usages, Groups []string
}

// String is the token as it is shown to the API server.
func (t Token) String() string { return bootstraputil.TokenFromIDAndSecret(t.ID, t.Secret) }

// Parse reads the two halves of a token; the error contains neither.
func Parse(text string) (Token, error) {
	id, secret, err := tokens.ParseToken(text)
	if err != nil {
		return Token{}, fmt.Errorf("token: want the form %s", bootstrapapi.BootstrapTokenPattern)
	}
	return Token{ID: id, Secret: secret}, nil
}

// Generate is a random token, of crypto/rand.
func Generate() (Token, error) {
	text, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("generate token: %w", err)
	}
	return Parse(text)
}

// check says what is wrong with a token that is to be made.
func (t *Token) check() error {
	if err := bootstraputil.ValidateUsages(t.Usages); err != nil {
		return err
	}
	if len(t.Usages) == 0 {
		return fmt.Errorf("token %s: has no usage, want some of %s", t.ID, strings.Join(bootstrapapi.KnownTokenUsages, ","))
	}
	if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
		return fmt.Errorf("token %s: groups are for tokens of usage authentication", t.ID)
	}
	for _, g := range t.Groups {
		if err := bootstraputil.ValidateBootstrapGroupName(g); err != nil {
			return err
		}
	}
	return nil
}

// Create makes the Secret of a token. One of that id must not be there.
func Create(ctx context.Context, client kubernetes.Interface, t Token) error {
	if err := t.check(); err != nil {
		return err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(t.ID)},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey: []byte(t.ID), bootstrapapi.BootstrapTokenSecretKey: []byte(t.Secret),
		},
	}
	if t.Description != "" {
		s.Data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(t.Description)
	}
	if !t.Expires.IsZero() {
		s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	if len(t.Groups) > 0 {
		s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(t.Groups, ","))
	}
	for _, u := range t.Usages {
		s.Data[bootstrapapi.BootstrapTokenUsagePrefix+u] = []byte("true")
	}
	_, err := client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a token with id %q already exists", t.ID)
	}
	if err != nil {
		return fmt.Errorf("create bootstrap token %s: %w", t.ID, err)
	}
	return nil
}

// List reads all tokens, by id. The error names Secrets that are none; the others are
// returned with it.
func List(ctx context.Context, client kubernetes.Interface) ([]Token, error) {
	list, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	var all []Token
	var faults []error
	for i := range list.Items {
		t, err := read(&list.Items[i])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Token) int { return cmp.Compare(a.ID, b.ID) })
	return all, errors.Join(faults...)
}

// read is the token of a Secret.
func read(s *corev1.Secret) (Token, error) {
	wrong := func(format string, args ...any) (Token, error) {
		return Token{}, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, fmt.Errorf(format, args...))
	}
	id, ok := secrets.ParseName(s.Name)
	if !ok || id != secrets.GetData(s, bootstrapapi.BootstrapTokenIDKey) {
		return wrong("its name is not %s and its token-id", bootstrapapi.BootstrapTokenSecretPrefix)
	}
	t, err := Parse(bootstraputil.TokenFromIDAndSecret(id, secrets.GetData(s, bootstrapapi.BootstrapTokenSecretKey)))
	if err != nil {
		return wrong("%w", err)
	}
	t.Description = secrets.GetData(s, bootstrapapi.BootstrapTokenDescriptionKey)
	if text := secrets.GetData(s, bootstrapapi.BootstrapTokenExpirationKey); text != "" {
		if t.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return wrong("expiration: %w", err)
		}
	}
	for _, u := range bootstrapapi.KnownTokenUsages {
		if secrets.GetData(s, bootstrapapi.BootstrapTokenUsagePrefix+u) == "true" {
			t.Usages = append(t.Usages, u)
		}
	}
	slices.Sort(t.Usages)
	if groups := secrets.GetData(s, bootstrapapi.BootstrapTokenExtraGroupsKey); groups != "" {
		t.Groups = strings.Split(groups, ",")
	}
	return t, nil
}

// Delete deletes a token by its id, or as a whole, and returns the id.
func Delete(ctx context.Context, client kubernetes.Interface, text string) (id string, err error) {
	id = text
	if !bootstraputil.IsValidBootstrapTokenID(text) {
		t, err := Parse(text)
		if err != nil {
			return "", fmt.Errorf("given token didn't match pattern %q or %q", bootstrapapi.BootstrapTokenPattern, bootstrapapi.BootstrapTokenIDPattern)
		}
		id = t.ID
	}
	if err := client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, bootstraputil.BootstrapTokenSecretName(id), metav1.DeleteOptions{}); err != nil {
		return id, fmt.Errorf("failed to delete bootstrap token %q: %w", id, err)
	}
	return id, nil
}
