package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/jws"
)

const bootstrapConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
admission: {disable: [ServiceAccount]}
plugins:
  bundles:
  - name: controllers
scheduler: {enabled: false}
controllers: {enabled: [bootstrapsigner, tokencleaner]}
`

// TestBootstrapTokens: cluster-info is signed by the tokens that there are, and expired
// ones go. The controllers have Secrets of kube-system and no others, and what an
// operator takes away, or a plugin that is not in use had, is gone.
func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, bootstrapConfig)
	e := minimal(t, config, filepath.Join(t.TempDir(), "data"))
	secrets := e.client.CoreV1().Secrets(metav1.NamespaceSystem)
	token := func(id string, ends time.Time) {
		t.Helper()
		if _, err := secrets.Create(bound(t), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "expiration": ends.UTC().Format(time.RFC3339)},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token("abcdef", time.Now().Add(time.Hour))
	token("expire", time.Now().Add(-time.Hour))
	infos := e.client.CoreV1().ConfigMaps(metav1.NamespacePublic)
	if _, err := infos.Create(bound(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	signed := func(content string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			cm, err := infos.Get(ctx, "cluster-info", metav1.GetOptions{})
			if err == nil && (!jws.DetachedTokenIsValid(cm.Data["jws-kubeconfig-abcdef"], content, "abcdef", "0123456789abcdef") || len(cm.Data) != 2) {
				err = fmt.Errorf("cluster-info is %v", cm.Data)
			}
			return err
		})
	}
	signed("a")
	eventually(t, func(ctx context.Context) error {
		if _, err := secrets.Get(ctx, "bootstrap-token-expire", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the expired token is there: %v", err)
		}
		return nil
	})
	e.kubectl(t, "-n", "kube-public", "patch", "cm", "cluster-info", "--type=merge", "-p", `{"data":{"kubeconfig":"b","jws-kubeconfig-abcdef":"forged","jws-kubeconfig-nobody":"x"}}`)
	signed("b")

	may := func(ctx context.Context, plugin, verb, resource, namespace, name string) (bool, error) {
		r, err := e.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:pintle:plugin:" + plugin,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace, Name: name},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return r.Status.Allowed, nil
	}
	for _, tt := range []struct {
		plugin, verb, resource, namespace, name string
		want                                    bool
	}{
		{"bootstrapsigner", "list", "secrets", "kube-system", "", true},
		{"bootstrapsigner", "list", "secrets", "default", "", false},
		{"bootstrapsigner", "list", "secrets", "", "", false},
		{"bootstrapsigner", "delete", "secrets", "kube-system", "bootstrap-token-abcdef", false},
		{"bootstrapsigner", "update", "configmaps", "kube-public", "cluster-info", true},
		{"bootstrapsigner", "update", "configmaps", "kube-public", "other", false},
		{"bootstrapsigner", "update", "configmaps", "kube-system", "cluster-info", false},
		{"tokencleaner", "delete", "secrets", "kube-system", "x", true},
		{"tokencleaner", "delete", "secrets", "default", "x", false},
		{"tokencleaner", "get", "configmaps", "kube-public", "cluster-info", false},
		{"controllers", "list", "secrets", "kube-system", "", false},
	} {
		if got, err := may(bound(t), tt.plugin, tt.verb, tt.resource, tt.namespace, tt.name); err != nil || got != tt.want {
			t.Errorf("%s may %s %s %s in %q: %v, %v", tt.plugin, tt.verb, tt.resource, tt.name, tt.namespace, got, err)
		}
	}

	// An operator takes away, and gives nothing.
	narrow := func(namespace, verbs string) []string {
		return []string{"patch", "plugin", "tokencleaner", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"permissions":[{"namespace":%q,"apiGroups":[""],"resources":["secrets"],"verbs":[%s]}]}}`, namespace, verbs)}
	}
	for _, more := range [][]string{narrow("default", `"list"`), narrow("", `"list"`), narrow("kube-system", `"list","create"`)} {
		if r := e.try(t, more...); r.err == nil || !strings.Contains(r.stderr, "does not ask for all of it") {
			t.Errorf("%s: %v %s", more, r.err, r.stderr)
		}
	}
	e.kubectl(t, narrow("kube-system", `"list","watch"`)...)
	eventually(t, func(ctx context.Context) error {
		if still, err := may(ctx, "tokencleaner", "delete", "secrets", "kube-system", "x"); err != nil || still {
			return fmt.Errorf("tokencleaner may still delete: %v, %v", still, err)
		}
		return nil
	})
	// Who owns the namespace binds its role to others: it is put right, and goes with the plugin.
	e.kubectl(t, "-n", "kube-system", "patch", "rolebinding", "pintle:plugin:bootstrapsigner", "--type=json", "-p", `[{"op":"replace","path":"/subjects/0/name","value":"mallory"}]`)
	within(t, 3*time.Minute, func(ctx context.Context) error {
		if r, err := may(ctx, "bootstrapsigner", "list", "secrets", "kube-system", ""); err != nil || !r {
			return fmt.Errorf("bootstrapsigner may list: %v, %v", r, err)
		}
		return nil
	})
	e.kubectl(t, "patch", "plugin", "bootstrapsigner", "--type=merge", "-p", `{"spec":{"enabled":false}}`)
	eventually(t, func(ctx context.Context) error {
		for _, namespace := range []string{"kube-system", "kube-public"} {
			_, role := e.client.RbacV1().ClusterRoles().Get(ctx, "pintle:plugin:bootstrapsigner:"+namespace, metav1.GetOptions{})
			_, binding := e.client.RbacV1().RoleBindings(namespace).Get(ctx, "pintle:plugin:bootstrapsigner", metav1.GetOptions{})
			if !apierrors.IsNotFound(role) || !apierrors.IsNotFound(binding) {
				return fmt.Errorf("for %s there are a role and a binding: %v, %v", namespace, role, binding)
			}
		}
		return nil
	})
}
