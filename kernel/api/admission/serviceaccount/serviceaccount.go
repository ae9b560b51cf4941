package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

const (
	defaultName = "default"
	// A missing default account is looked for every retryEvery, retries times.
	retryEvery = 50 * time.Millisecond
	retries    = 40
)

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	client   kubernetes.Interface
	accounts corelisters.ServiceAccountLister
	generate func(base string) string
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New registers the informer it needs.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory) *Plugin {
	return &Plugin{
		Handler:  admission.NewHandler(admission.Create, admission.Update),
		client:   client,
		accounts: factory.Core().V1().ServiceAccounts().Lister(),
		generate: names.SimpleNameGenerator.GenerateName,
	}
}

// podOf returns nil for requests that are none of the plugin's business.
func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	if sub := a.GetSubresource(); sub != "" && sub != "ephemeralcontainers" {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	if isMirror(pod) {
		return checkMirror(a, pod)
	}
	// The old field is an alias of the new one.
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultName
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, a.GetNamespace(), pod.Spec.ServiceAccountName)
	if err != nil {
		return lookupError(a, pod, err)
	}
	if automount(account, pod) {
		p.mount(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 && len(account.ImagePullSecrets) > 0 {
		pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), account.ImagePullSecrets...)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	ephemeral := a.GetSubresource() == "ephemeralcontainers"
	if a.GetOperation() != admission.Create && !ephemeral {
		return nil
	}
	if !ephemeral && isMirror(pod) {
		return checkMirror(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		return admission.NewForbidden(a, fmt.Errorf("no service account specified for pod %s/%s", a.GetNamespace(), pod.Name))
	}
	account, err := p.account(ctx, a.GetNamespace(), pod.Spec.ServiceAccountName)
	if err != nil {
		return lookupError(a, pod, err)
	}
	if err := limitSecrets(account, pod, ephemeral); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func lookupError(a admission.Attributes, pod *corev1.Pod, err error) error {
	return admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", a.GetNamespace(), pod.Spec.ServiceAccountName, err))
}

// checkMirror: a mirror pod shows what runs without the API, so it can use
// nothing that the API hands out.
func checkMirror(a admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.NewForbidden(a, errors.New("a mirror pod may not reference service accounts"))
	}
	if referencesSecrets(pod) {
		return admission.NewForbidden(a, errors.New("a mirror pod may not reference secrets"))
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return admission.NewForbidden(a, errors.New("a mirror pod may not use ServiceAccountToken volume projections"))
			}
		}
	}
	return nil
}

func (p *Plugin) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	account, err := p.accounts.ServiceAccounts(namespace).Get(name)
	if !apierrors.IsNotFound(err) {
		return account, err
	}
	tries := 1
	if name == defaultName {
		tries = retries
	}
	for try := range tries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(retryEvery):
			}
		}
		account, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return account, err
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
}

// automount: the pod's word counts before the account's; yes if neither says.
func automount(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	for _, say := range []*bool{pod.Spec.AutomountServiceAccountToken, account.AutomountServiceAccountToken} {
		if say != nil {
			return *say
		}
	}
	return true
}
