package resources

import (
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// setPodTemplateDefaults is what each kind with a pod template calls on it.
func setPodTemplateDefaults(t *corev1.PodTemplateSpec) {
	setPodSpecDefaults(&t.Spec)
	dropInitContainerAnnotations(t.Annotations)
}

// setPodSpecDefaults fills what pods and templates alike get.
func setPodSpecDefaults(s *corev1.PodSpec) {
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if s.TerminationGracePeriodSeconds == nil {
		period := int64(corev1.DefaultTerminationGracePeriodSeconds)
		s.TerminationGracePeriodSeconds = &period
	}
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	// serviceAccount is the field's name before v1; both hold the same.
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		setVolumeDefaults(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		setContainerDefaults(&s.InitContainers[i])
	}
	for i := range s.Containers {
		setContainerDefaults(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		setContainerDefaults((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(s.Overhead)
	if s.Resources != nil {
		roundUp(s.Resources.Limits)
		roundUp(s.Resources.Requests)
	}
}

func setContainerDefaults(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = defaultPullPolicy(c.Image)
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.FieldRef != nil {
			setFieldRefDefaults(from.FieldRef)
		}
		if from.FileKeyRef != nil && from.FileKeyRef.Optional == nil {
			optional := false
			from.FileKeyRef.Optional = &optional
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			setProbeDefaults(p)
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && h.HTTPGet != nil {
				setHTTPGetDefaults(h.HTTPGet)
			}
		}
	}
}

func setProbeDefaults(p *corev1.Probe) {
	for _, f := range []struct {
		field *int32
		value int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if p.HTTPGet != nil {
		setHTTPGetDefaults(p.HTTPGet)
	}
	if p.GRPC != nil && p.GRPC.Service == nil {
		service := ""
		p.GRPC.Service = &service
	}
}

func setHTTPGetDefaults(h *corev1.HTTPGetAction) {
	if h.Path == "" {
		h.Path = "/"
	}
	if h.Scheme == "" {
		h.Scheme = corev1.URISchemeHTTP
	}
}

func setFieldRefDefaults(f *corev1.ObjectFieldSelector) {
	if f.APIVersion == "" {
		f.APIVersion = "v1"
	}
}

// defaultPullPolicy is Always for an image that names the tag latest or none,
// IfNotPresent for any other, for one that cannot be read too.
func defaultPullPolicy(image string) corev1.PullPolicy {
	if imageTag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func imageTag(image string) string {
	// Digests, upper case, odd separators and long names take the reference
	// grammar, which costs microseconds.
	if len(image) >= 64 {
		return parsedImageTag(image)
	}
	plain := func(i int) bool {
		return i >= 0 && i < len(image) && (image[i] >= 'a' && image[i] <= 'z' || image[i] >= '0' && image[i] <= '9')
	}
	for i := range len(image) {
		switch c := image[i]; {
		case plain(i):
		case (c == '.' || c == '/' || c == '-' || c == ':') && plain(i-1) && plain(i+1):
		default:
			return parsedImageTag(image)
		}
	}
	if image == "" {
		return ""
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return "latest"
}

func parsedImageTag(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	if t, ok := named.(reference.Tagged); ok {
		return t.Tag()
	}
	if _, ok := named.(reference.Digested); ok {
		return ""
	}
	return "latest"
}

// roundUp rounds quantities up to thousandths, the finest the API keeps.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		if q.RoundUp(resource.Milli) {
			continue
		}
		list[name] = q
	}
}
