package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// What cannot be used ends the start, and says which file.
func TestRefusedAdmissionConfigs(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for fault, content := range map[string]string{
		"is not enabled; add it to admission.enable": head + "- {name: PodNodeSelector, configuration: {podNodeSelectorPluginConfig: {}}}\n",
		"takes a configuration; those that do are":   head + "- {name: LimitRanger, configuration: {}}\n",
		"staticManifestsDir: webhooks from files":    head + "- name: MutatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: /tmp}\n",
		"must be an absolute file path":              head + "- name: MutatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: x}\n",
		"no such file":                               head + "- name: ValidatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: /absent}\n",
		"plugin ResourceQuota":                       head + "- name: ResourceQuota\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: ''}]}\n",
		"configured by a key of its own and in":      head + "- name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration}\n",
	} {
		t.Run(fault, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "admission.yaml")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset()
			_, err := NewChain(Deps{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Stop: t.Context().Done(), ConfigFile: path,
				PodSecurity: []byte(`{"kind":"PodSecurityConfiguration","apiVersion":"pod-security.admission.config.k8s.io/v1"}`)})
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Error(err)
			}
		})
	}
}
