package resources

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// specValidator is one pass over a spec; volumes are the valid ones, which
// mounts may name.
type specValidator struct {
	spec    *corev1.PodSpec
	allow   PodAllowances
	volumes map[string]*corev1.VolumeSource
}

func (v *specValidator) validateContainers(path *field.Path) field.ErrorList {
	if len(v.spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i := range v.spec.Containers {
		c, p := &v.spec.Containers[i], path.Index(i)
		errs = append(errs, v.validateContainer(c, p)...)
		if slices.ContainsFunc(v.spec.Containers[:i], func(o corev1.Container) bool { return o.Name == c.Name }) {
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		}
		errs = append(errs, v.validateRunning(c, p)...)
		if c.RestartPolicy != nil {
			errs = append(errs, supported(p.Child("restartPolicy"), *c.RestartPolicy,
				corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
		}
		errs = append(errs, validateRestartRules(c, p)...)
	}
	return append(errs, validateHostPorts(v.spec.Containers, path)...)
}

func (v *specValidator) validateInitContainers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range v.spec.InitContainers {
		c, p := &v.spec.InitContainers[i], path.Index(i)
		errs = append(errs, v.validateContainer(c, p)...)
		same := func(o corev1.Container) bool { return o.Name == c.Name }
		if slices.ContainsFunc(v.spec.Containers, same) || c.Name != "" && slices.ContainsFunc(v.spec.InitContainers[:i], same) {
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		}
		if c.RestartPolicy != nil {
			errs = append(errs, supported(p.Child("restartPolicy"), *c.RestartPolicy,
				corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
		}
		errs = append(errs, validateRestartRules(c, p)...)
		errs = append(errs, validateHostPorts(v.spec.InitContainers[i:i+1], path)...)
		if isSidecar(c) {
			errs = append(errs, v.validateRunning(c, p)...)
			continue
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(p.Child(f.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
		for j, r := range c.ResizePolicy {
			if r.RestartPolicy == corev1.RestartContainer && !v.allow.initRestarts {
				errs = append(errs, field.Invalid(p.Child("resizePolicy").Index(j).Child("restartPolicy"), r.RestartPolicy, "must not be set to 'RestartContainer' for non-sidecar initContainers"))
			}
		}
	}
	return errs
}

func (v *specValidator) validateEphemeral(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range v.spec.EphemeralContainers {
		e, p := &v.spec.EphemeralContainers[i], path.Index(i)
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		errs = append(errs, v.validateContainer(c, p)...)
		named := func(name string) bool {
			same := func(o corev1.Container) bool { return o.Name == name }
			return slices.ContainsFunc(v.spec.Containers, same) || slices.ContainsFunc(v.spec.InitContainers, same)
		}
		if named(e.Name) || slices.ContainsFunc(v.spec.EphemeralContainers[:i], func(o corev1.EphemeralContainer) bool { return o.Name == e.Name }) {
			errs = append(errs, field.Duplicate(p.Child("name"), e.Name))
		}
		if e.TargetContainerName != "" && !named(e.TargetContainerName) {
			errs = append(errs, field.NotFound(p.Child("targetContainerName"), e.TargetContainerName))
		}
		const never = "cannot be set for an Ephemeral Container"
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"ports", len(c.Ports) > 0}, {"resources", len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0},
			{"resizePolicy", len(c.ResizePolicy) > 0}, {"restartPolicy", c.RestartPolicy != nil}, {"restartPolicyRules", c.RestartPolicyRules != nil},
			{"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
			{"lifecycle", c.Lifecycle != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(p.Child(f.name), never))
			}
		}
		for j, m := range c.VolumeMounts {
			if m.SubPath != "" {
				errs = append(errs, field.Forbidden(p.Child("volumeMounts").Index(j).Child("subPath"), never))
			}
			if m.SubPathExpr != "" {
				errs = append(errs, field.Forbidden(p.Child("volumeMounts").Index(j).Child("subPathExpr"), never))
			}
		}
	}
	return errs
}

// validateContainer checks what containers of each sort have.
func (v *specValidator) validateContainer(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(e field.ErrorList) { errs = append(errs, e...) }
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		add(invalidAll(path.Child("name"), c.Name, validation.IsDNS1123Label(c.Name)))
	}
	add(required(path.Child("image"), c.Image))
	add(listed(path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError))
	add(validateContainerPorts(c.Ports, path.Child("ports")))
	add(validateEnv(c.Env, path.Child("env")))
	add(validateEnvFrom(c.EnvFrom, path.Child("envFrom")))
	add(v.validateMounts(c, path))
	add(oneOf(path.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever))
	add(validateResources(&c.Resources, v.allow.hugePages, path.Child("resources")))
	for i, r := range c.Resources.Claims {
		if !slices.ContainsFunc(v.spec.ResourceClaims, func(p corev1.PodResourceClaim) bool { return p.Name == r.Name }) {
			errs = append(errs, claimNotFound(path.Child("resources", "claims").Index(i), r.Name, v.spec))
		}
	}
	resize := path.Child("resizePolicy")
	for i, r := range c.ResizePolicy {
		if slices.ContainsFunc(c.ResizePolicy[:i], func(o corev1.ContainerResizePolicy) bool { return o.ResourceName == r.ResourceName }) {
			errs = append(errs, field.Duplicate(resize.Index(i), r.ResourceName))
		}
		add(oneOf(resize, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory))
		add(oneOf(resize, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer))
		if v.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(resize, r.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	add(v.validateSecurity(c.SecurityContext, path.Child("securityContext")))
	return errs
}

// validateRunning checks hooks and probes.
func (v *specValidator) validateRunning(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	grace := v.spec.TerminationGracePeriodSeconds
	if l := c.Lifecycle; l != nil {
		for _, h := range []struct {
			name string
			hook *corev1.LifecycleHandler
		}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
			if h.hook != nil {
				errs = append(errs, validateHandler(handler{h.hook.Exec, h.hook.HTTPGet, h.hook.TCPSocket, nil, h.hook.Sleep}, grace, path.Child("lifecycle", h.name))...)
			}
		}
	}
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		if p.probe == nil {
			continue
		}
		at := path.Child(p.name)
		errs = append(errs, validateProbe(p.probe, grace, at)...)
		if p.name == "readinessProbe" {
			if p.probe.TerminationGracePeriodSeconds != nil {
				errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), p.probe.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
			}
		} else if p.probe.SuccessThreshold != 1 {
			errs = append(errs, field.Invalid(at.Child("successThreshold"), p.probe.SuccessThreshold, "must be 1"))
		}
	}
	return errs
}

func validateRestartRules(c *corev1.Container, path *field.Path) field.ErrorList {
	if len(c.RestartPolicyRules) == 0 {
		return nil
	}
	var errs field.ErrorList
	rules := path.Child("restartPolicyRules")
	if c.RestartPolicy == nil {
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if n := len(c.RestartPolicyRules); n > 20 {
		errs = append(errs, field.TooMany(rules, n, 20))
	}
	for i, r := range c.RestartPolicyRules {
		p := rules.Index(i)
		errs = append(errs, supported(p.Child("action"), r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(p.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, supported(p.Child("exitCodes", "operator"), r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(r.ExitCodes.Values); n > 255 {
			errs = append(errs, field.TooMany(p.Child("exitCodes", "values"), n, 255))
		}
	}
	return errs
}

// validateHostPorts: no two containers hold one port of the node.
func validateHostPorts(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen map[string]bool
	for i := range containers {
		for j := range containers[i].Ports {
			p := &containers[i].Ports[j]
			if p.HostPort == 0 {
				continue
			}
			if seen == nil {
				seen = map[string]bool{}
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if seen[key] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			seen[key] = true
		}
	}
	return errs
}

func validateContainerPorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		port, p := &ports[i], path.Index(i)
		if port.Name != "" {
			if msgs := validation.IsValidPortName(port.Name); len(msgs) != 0 {
				errs = append(errs, invalidAll(p.Child("name"), port.Name, msgs)...)
			} else if slices.ContainsFunc(ports[:i], func(o corev1.ContainerPort) bool { return o.Name == port.Name }) {
				errs = append(errs, field.Duplicate(p.Child("name"), port.Name))
			}
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(p.Child("containerPort"), ""))
		} else {
			errs = append(errs, invalidAll(p.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))...)
		}
		if port.HostPort != 0 {
			errs = append(errs, invalidAll(p.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))...)
		}
		errs = append(errs, oneOf(p.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	return errs
}

// handler holds what probes and hooks can do, one of which is set.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func validateHandler(h handler, grace *int64, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	one := func(name string, set bool, check func(*field.Path) field.ErrorList) {
		if !set {
			return
		}
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
			return
		}
		errs = append(errs, check(path.Child(name))...)
	}
	one("exec", h.exec != nil, func(p *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(p.Child("command"), "")}
		}
		return nil
	})
	one("httpGet", h.http != nil, func(p *field.Path) field.ErrorList {
		errs := required(p.Child("path"), h.http.Path)
		errs = append(errs, validatePortOrName(h.http.Port, p.Child("port"))...)
		errs = append(errs, supported(p.Child("scheme"), h.http.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
		for _, header := range h.http.HTTPHeaders {
			errs = append(errs, invalidAll(p.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
		}
		return errs
	})
	one("tcpSocket", h.tcp != nil, func(p *field.Path) field.ErrorList { return validatePortOrName(h.tcp.Port, p.Child("port")) })
	one("grpc", h.grpc != nil, func(p *field.Path) field.ErrorList {
		return validatePortOrName(intstr.FromInt32(h.grpc.Port), p.Child("port"))
	})
	one("sleep", h.sleep != nil, func(p *field.Path) field.ErrorList {
		if grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *grace) {
			return field.ErrorList{field.Invalid(p, h.sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))}
		}
		return nil
	})
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

func validateProbe(p *corev1.Probe, grace *int64, path *field.Path) field.ErrorList {
	errs := validateHandler(handler{p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil}, grace, path)
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if f.value < 0 {
			errs = append(errs, nonNegative(path.Child(f.name), int64(f.value))...)
		}
	}
	if t := p.TerminationGracePeriodSeconds; t != nil && *t <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *t, "must be greater than 0"))
	}
	return errs
}

func claimNotFound(p *field.Path, name string, s *corev1.PodSpec) *field.Error {
	err := field.NotFound(p, name)
	if len(s.ResourceClaims) == 0 {
		err.Detail = "must be one of the names in pod.spec.resourceClaims which is empty"
	} else {
		err.Detail = "must be one of the names in pod.spec.resourceClaims"
	}
	return err
}

// validateResources checks names and quantities, and requests against limits;
// brokenPages leaves it open whether huge pages are whole.
func validateResources(r *corev1.ResourceRequirements, brokenPages bool, path *field.Path) field.ErrorList {
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return nil
	}
	var errs field.ErrorList
	huge, compute := false, false
	each := func(list corev1.ResourceList, at *field.Path) {
		for name, q := range list {
			p := at.Key(string(name))
			errs = append(errs, checkContainerResourceName(name, p)...)
			errs = append(errs, checkQuantity(name, q, p)...)
			if !brokenPages {
				errs = append(errs, checkHugePages(name, q, p)...)
			}
			huge = huge || isHugePage(name)
			compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	limits, requests := path.Child("limits"), path.Child("requests")
	each(r.Limits, limits)
	each(r.Requests, requests)
	for name, q := range r.Requests {
		limit, ok := r.Limits[name]
		switch {
		case !ok && !overcommitAllowed(name):
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case ok && q.Cmp(limit) != 0 && !overcommitAllowed(name):
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case ok && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if huge && !compute {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

func privileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
}
