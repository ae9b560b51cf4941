package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api/answerlimit"
)

const (
	// FailedOpenAnnotation is on pods that passed because the server failed.
	FailedOpenAnnotation = "alpha.image-policy.k8s.io/failed-open"

	auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"
	reviewed    = ".image-policy.k8s.io/"
	ephemeral   = "ephemeralcontainers"

	// maxAnswer bounds an answer, maxAsking all tries of one question.
	maxAnswer = 1 << 20
	maxAsking = time.Minute
	// maxAnswers bounds the answers that are remembered, maxKept the size of a
	// question whose answer is: a pod's annotations can have 256 KiB.
	maxAnswers = 1024
	maxKept    = 16 << 10
)

// Plugin asks a server about the images of pods.
type Plugin struct {
	*admission.Handler
	webhook *webhookutil.GenericWebhook
	answers *cache.LRUExpireCache
	times   times
	open    bool
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New reads the configuration. It asks nothing yet.
func New(data []byte) (*Plugin, error) {
	c, t, err := load(data)
	if err != nil {
		return nil, err
	}
	client, err := webhookutil.LoadKubeconfig(c.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("imagePolicy.kubeConfigFile %s: %w", c.KubeConfigFile, err)
	}
	client.Wrap(answerlimit.Wrap("the image policy webhook", maxAnswer))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	hook, err := webhookutil.NewGenericWebhook(scheme, serializer.NewCodecFactory(scheme), client,
		[]schema.GroupVersion{v1alpha1.SchemeGroupVersion}, webhookutil.DefaultRetryBackoffWithInitialDelay(t.backoff))
	if err != nil {
		return nil, err
	}
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update), webhook: hook,
		answers: cache.NewLRUExpireCache(maxAnswers), times: t, open: c.DefaultAllow,
	}, nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	part := a.GetSubresource()
	if a.GetResource().GroupResource() != corev1.Resource("pods") || part != "" && part != ephemeral {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	question := v1alpha1.ImageReviewSpec{Containers: images(pod, part), Annotations: map[string]string{}, Namespace: a.GetNamespace()}
	for key, value := range pod.Annotations {
		if strings.Contains(key, reviewed) {
			question.Annotations[key] = value
		}
	}
	status, err := p.review(ctx, question)
	if err != nil {
		if !p.open {
			return admission.NewForbidden(a, err)
		}
		_ = a.AddAnnotation(auditPrefix+"failed-open", "true")
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[FailedOpenAnnotation] = "true"
		return nil
	}
	for key, value := range status.AuditAnnotations {
		_ = a.AddAnnotation(auditPrefix+key, value) // one that is no key is not recorded
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason != "":
		return admission.NewForbidden(a, fmt.Errorf("image policy webhook backend denied one or more images: %s", status.Reason))
	}
	return admission.NewForbidden(a, errors.New("one or more images rejected by webhook backend"))
}

// images are those of a pod, or of its ephemeral containers.
func images(pod *corev1.Pod, part string) []v1alpha1.ImageReviewContainerSpec {
	var out []v1alpha1.ImageReviewContainerSpec
	add := func(image string) { out = append(out, v1alpha1.ImageReviewContainerSpec{Image: image}) }
	if part == ephemeral {
		for _, c := range pod.Spec.EphemeralContainers {
			add(c.Image)
		}
		return out
	}
	for _, c := range pod.Spec.Containers {
		add(c.Image)
	}
	for _, c := range pod.Spec.InitContainers {
		add(c.Image)
	}
	return out
}

// review gives what the server says, or said a while ago.
func (p *Plugin) review(ctx context.Context, question v1alpha1.ImageReviewSpec) (v1alpha1.ImageReviewStatus, error) {
	key, err := json.Marshal(question)
	if err != nil {
		return v1alpha1.ImageReviewStatus{}, err
	}
	if known, ok := p.answers.Get(string(key)); ok {
		return known.(v1alpha1.ImageReviewStatus), nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxAsking)
	defer cancel()
	result := p.webhook.WithExponentialBackoff(ctx, func() rest.Result {
		return p.webhook.RestClient.Post().Body(&v1alpha1.ImageReview{Spec: question}).Do(ctx)
	})
	if err := result.Error(); err != nil {
		return v1alpha1.ImageReviewStatus{}, err
	}
	var code int
	if result.StatusCode(&code); code < 200 || code >= 300 {
		return v1alpha1.ImageReviewStatus{}, fmt.Errorf("Error contacting webhook: %d", code)
	}
	var answer v1alpha1.ImageReview
	if err := result.Into(&answer); err != nil {
		return v1alpha1.ImageReviewStatus{}, err
	}
	ttl := p.times.deny
	if answer.Status.Allowed {
		ttl = p.times.allow
	}
	if len(key) <= maxKept {
		p.answers.Add(string(key), answer.Status, ttl)
	}
	return answer.Status, nil
}
