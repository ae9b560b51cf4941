package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	"pintle.dev/pintle/sdk/toolchain"
)

// TestAdmissionPlugin: the template of an admission plugin refuses pods of a
// running kernel, as a module and as a process, until it is switched off.
func TestAdmissionPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "admission", "team")
	author(t, dir, "plugin", "test", "team")
	for _, transport := range []string{toolchain.WASM, toolchain.Process} {
		t.Run(transport, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\napi: {bindAddress: 127.0.0.1}\n" +
				"plugins:\n  bundles:\n  - name: team\n    transport: " + transport + "\nscheduler: {profiles: []}\nadmission: {enabled: [team]}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := launched(t, cluster.Options{Name: "team-" + transport, Config: config, Set: []string{"plugins.directories=[" + dir + "]"}})
			create := func(ctx context.Context, name string, labels map[string]string) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}},
				}}
				_, err := e.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
				return err
			}
			// Without controllers nobody else makes it.
			if _, err := e.client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			if err := create(t.Context(), "blue", map[string]string{"team": "blue"}); err != nil {
				t.Errorf("a pod of a team: %v", err)
			}
			err := create(t.Context(), "loose", nil)
			want := `admission plugin "team" denied the request: pods say which team they belong to: set the label team`
			if !apierrors.IsForbidden(err) || err.Error() != want {
				t.Errorf("a pod without a team: %v, want %q", err, want)
			}
			patch := []byte(`{"spec":{"enabled":false}}`)
			eventually(t, func(ctx context.Context) error {
				return e.client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins/team").Body(patch).Do(ctx).Error()
			})
			tries := 0
			eventually(t, func(ctx context.Context) error {
				tries++
				if err := create(ctx, fmt.Sprint("free-", tries), nil); err != nil {
					return errors.Join(errors.New("still refused after it was switched off"), err)
				}
				return nil
			})
		})
	}
}
