package resources

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// digestPattern is a digest as the configuration file writes it.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// maxPluginConfig bounds a plugin's configuration, in bytes of JSON.
const maxPluginConfig = 256 << 10

// maxProfileName bounds the name of a scheduler profile, in bytes.
const maxProfileName = 253

func pluginKind() Kind {
	gvk := v1alpha1.SchemeGroupVersion.WithKind("Plugin")
	common := base{gvk: gvk}
	return Kind{
		GVK: gvk, Resource: "plugins", Singular: "plugin",
		New:     func() runtime.Object { return &v1alpha1.Plugin{} },
		NewList: func() runtime.Object { return &v1alpha1.PluginList{} },
		Strategy: &rules[*v1alpha1.Plugin]{
			base: common.resetting([]any{"status"}),
			prepareCreate: func(o *v1alpha1.Plugin) {
				o.Status = v1alpha1.PluginStatus{}
				o.Generation = 1
			},
			prepareUpdate: func(o, old *v1alpha1.Plugin) {
				o.Status = old.Status
				if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			validate:       validatePlugin,
			validateUpdate: validatePluginUpdate,
		},
		Status: &rules[*v1alpha1.Plugin]{
			base:           common.resetting([]any{"spec"}),
			prepareUpdate:  func(o, old *v1alpha1.Plugin) { o.Spec = old.Spec },
			validateUpdate: validatePluginStatusUpdate,
		},
		FieldNames: []string{"spec.bundle", "spec.kind", "status.state"},
		Fields: func(obj runtime.Object) fields.Set {
			o := obj.(*v1alpha1.Plugin)
			return fields.Set{"spec.bundle": o.Spec.Bundle, "spec.kind": string(o.Spec.Kind), "status.state": string(o.Status.State)}
		},
		Columns: cols(nameColumn(), stringColumn("Kind", "What the plugin is."), stringColumn("Transport", "How the plugin is run."),
			stringColumn("Version", "Version that runs."), stringColumn("State", "Where the plugin is in its life."),
			integerColumn("Restarts", "How often the plugin was started again since the kernel started."),
			integerColumn("Calls", "Calls answered since the kernel started."),
			stringColumn("P99", "The time within which 99 of 100 recent calls were answered."), ageColumn(),
			wideColumn("Weight", "Factor of the plugin's score."), wideColumn("Profiles", "Scheduler profiles that use the plugin."),
			wideColumn("Digest", "Digest of the artefact that runs."), wideColumn("Bundle", "Name of the bundle that provides the plugin."),
			wideColumn("Message", "Why the plugin is in this state, or why its spec is not in force.")),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1alpha1.Plugin)
			spec, status := o.Spec, o.Status
			return []any{o.Name, string(spec.Kind), orNone(string(cmp.Or(status.Transport, spec.Transport))),
				orNone(cmp.Or(status.Version, spec.Version)), pluginState(&status),
				int64(status.Restarts), status.Calls, orNone(status.P99), ageCell(o.CreationTimestamp),
				weightCell(spec.Weight), orNone(strings.Join(spec.Profiles, ",")),
				orNone(cmp.Or(status.Digest, spec.Digest)), cmp.Or(status.Bundle, spec.Bundle), pluginMessage(&status)}, nil
		},
	}
}

func weightCell(weight *int64) string {
	if weight == nil {
		return "<none>"
	}
	return strconv.FormatInt(*weight, 10)
}

// pluginState names beside the state the walls that the plugin's process runs without, as
// a node's status names what it does not do.
func pluginState(s *v1alpha1.PluginStatus) string {
	state := string(cmp.Or(s.State, v1alpha1.PluginStatePending))
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.PluginConditionConfined); c != nil && c.Status == metav1.ConditionFalse {
		state += "," + c.Reason
	}
	return state
}

// pluginMessage says first what keeps the spec from being in force.
func pluginMessage(s *v1alpha1.PluginStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.PluginConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
		return "spec not in force: " + c.Message
	}
	return s.Message
}

func setPluginDefaults(o *v1alpha1.Plugin) {
	if o.Spec.Enabled == nil {
		o.Spec.Enabled = ptr.To(true)
	}
}

func validatePlugin(o *v1alpha1.Plugin) field.ErrorList {
	// Plugins have the names of their kind's tradition: PodFitsResources.
	errs := apivalidation.ValidateObjectMeta(&o.ObjectMeta, false,
		func(name string, _ bool) []string { return content.IsPathSegmentName(name) }, metadataPath)
	s := &o.Spec
	if s.Bundle == "" {
		errs = append(errs, field.Required(specPath.Child("bundle"), ""))
	} else {
		for _, msg := range content.IsPathSegmentName(s.Bundle) {
			errs = append(errs, field.Invalid(specPath.Child("bundle"), s.Bundle, msg))
		}
	}
	errs = append(errs, validateOneOf(s.Kind, specPath.Child("kind"), true, append(schedulingKinds(),
		v1alpha1.PluginKindController, v1alpha1.PluginKindAdmission, v1alpha1.PluginKindRuntime, v1alpha1.PluginKindProxy, v1alpha1.PluginKindNetwork, v1alpha1.PluginKindAPIServer, v1alpha1.PluginKindCloud, v1alpha1.PluginKindUnknown)...)...)
	errs = append(errs, validateOneOf(s.Transport, specPath.Child("transport"), false, v1alpha1.PluginTransportWASM, v1alpha1.PluginTransportProcess)...)
	errs = append(errs, validateOneOf(s.OnFailure, specPath.Child("onFailure"), false, v1alpha1.PluginFailureRefuse, v1alpha1.PluginFailureIgnore)...)
	if s.Digest != "" && !digestPattern.MatchString(s.Digest) {
		errs = append(errs, field.Invalid(specPath.Child("digest"), s.Digest, "must be sha256: and 64 hexadecimal digits"))
	}
	scores := s.Kind == v1alpha1.PluginKindPriority
	if s.OnFailure != "" && s.Kind != v1alpha1.PluginKindAdmission && !slices.Contains(schedulingKinds(), s.Kind) {
		errs = append(errs, field.Forbidden(specPath.Child("onFailure"), "may only be specified for plugins of the scheduler and of admission"))
	}
	if s.Weight != nil {
		if !scores {
			errs = append(errs, field.Forbidden(specPath.Child("weight"), "may only be specified for priorities"))
		} else if *s.Weight < 1 || *s.Weight > 1000000 {
			errs = append(errs, field.Invalid(specPath.Child("weight"), *s.Weight, "must be between 1 and 1000000, inclusive"))
		}
	}
	errs = append(errs, validatePluginProfiles(s)...)
	errs = append(errs, validatePluginShadow(s)...)
	if to := s.RollbackTo; to != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(to.Revision, specPath.Child("rollbackTo", "revision"))...)
	}
	if s.Timeout != nil && (s.Timeout.Duration < time.Millisecond || s.Timeout.Duration > time.Minute) {
		errs = append(errs, field.Invalid(specPath.Child("timeout"), s.Timeout.Duration.String(), "must be between 1ms and 1m0s, inclusive"))
	}
	return append(errs, validatePluginExtras(s)...)
}

// validatePluginProfiles: names are those of the configuration's profiles, any
// words; whether there is such a profile the plugin host knows.
func validatePluginProfiles(s *v1alpha1.PluginSpec) field.ErrorList {
	if len(s.Profiles) == 0 {
		return nil
	}
	path := specPath.Child("profiles")
	switch s.Kind {
	case v1alpha1.PluginKindController, v1alpha1.PluginKindAdmission, v1alpha1.PluginKindRuntime, v1alpha1.PluginKindProxy, v1alpha1.PluginKindNetwork, v1alpha1.PluginKindAPIServer, v1alpha1.PluginKindCloud:
		return field.ErrorList{field.Forbidden(path, "may only be specified for plugins of the scheduler")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range s.Profiles {
		switch {
		case name == "":
			errs = append(errs, field.Required(path.Index(i), ""))
		case len(name) > maxProfileName:
			errs = append(errs, field.TooLong(path.Index(i), "", maxProfileName))
		case seen[name]:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

func validatePluginShadow(s *v1alpha1.PluginSpec) field.ErrorList {
	if s.Shadow == nil {
		return nil
	}
	path := specPath.Child("shadow")
	if s.Kind != v1alpha1.PluginKindPredicate && s.Kind != v1alpha1.PluginKindPriority {
		return field.ErrorList{field.Forbidden(path, "may only be specified for predicates and priorities")}
	}
	if s.Shadow.Version == "" && s.Shadow.Digest == "" {
		return field.ErrorList{field.Required(path, "must have a version or a digest")}
	}
	if s.Shadow.Digest != "" && !digestPattern.MatchString(s.Shadow.Digest) {
		return field.ErrorList{field.Invalid(path.Child("digest"), s.Shadow.Digest, "must be sha256: and 64 hexadecimal digits")}
	}
	return nil
}

// schedulingKinds take part in the scheduling of pods.
func schedulingKinds() []v1alpha1.PluginKind {
	return []v1alpha1.PluginKind{
		v1alpha1.PluginKindPredicate, v1alpha1.PluginKindPriority, v1alpha1.PluginKindPreEnqueue, v1alpha1.PluginKindQueueSort,
		v1alpha1.PluginKindPreFilter, v1alpha1.PluginKindPostFilter, v1alpha1.PluginKindPreScore, v1alpha1.PluginKindReserve,
		v1alpha1.PluginKindPermit, v1alpha1.PluginKindPreBind, v1alpha1.PluginKindBind, v1alpha1.PluginKindPostBind,
	}
}

func validatePluginExtras(s *v1alpha1.PluginSpec) field.ErrorList {
	var errs field.ErrorList
	if s.Limits != nil {
		path := specPath.Child("limits")
		if m := s.Limits.Memory; m != nil && m.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("memory"), m.String(), "must be greater than zero"))
		}
		if c := s.Limits.CPU; c != nil && c.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("cpu"), c.String(), "must be greater than zero"))
		}
		if n := s.Limits.CallsPerSecond; n != nil && *n <= 0 {
			errs = append(errs, field.Invalid(path.Child("callsPerSecond"), *n, "must be greater than zero"))
		}
		if n := s.Limits.PIDs; n != nil && *n < 4 {
			errs = append(errs, field.Invalid(path.Child("pids"), *n, "must be greater than or equal to 4"))
		}
	}
	if s.Config != nil {
		path := specPath.Child("config")
		if len(s.Config.Raw) > maxPluginConfig {
			errs = append(errs, field.TooLong(path, "", maxPluginConfig))
		} else if s.Config.Raw != nil && !json.Valid(s.Config.Raw) {
			errs = append(errs, field.Invalid(path, "<value omitted>", "must be valid JSON"))
		}
	}
	for i, name := range s.HostFunctions {
		if path := specPath.Child("hostFunctions").Index(i); name == "" {
			errs = append(errs, field.Required(path, ""))
		} else if slices.Contains(s.HostFunctions[:i], name) {
			errs = append(errs, field.Duplicate(path, name))
		}
	}
	for i, rule := range s.Permissions {
		path := specPath.Child("permissions").Index(i)
		errs = append(errs, validatePolicyRule(rule.PolicyRule, rule.Namespace != "", path)...)
		if rule.Namespace == "" {
			continue
		}
		for _, fault := range validation.IsDNS1123Label(rule.Namespace) {
			errs = append(errs, field.Invalid(path.Child("namespace"), rule.Namespace, fault))
		}
	}
	return errs
}

// validateOneOf asks for one of values, or for nothing where that is allowed.
func validateOneOf[S ~string](v S, path *field.Path, required bool, values ...S) field.ErrorList {
	if v == "" {
		if required {
			return field.ErrorList{field.Required(path, "")}
		}
		return nil
	}
	for _, known := range values {
		if v == known {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, v, values)}
}

// validatePluginUpdate lets the bundle change: a plugin may be replaced by
// another of its name.
func validatePluginUpdate(o, old *v1alpha1.Plugin) field.ErrorList {
	return append(validatePlugin(o), apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, metadataPath)...)
}

func validatePluginStatusUpdate(o, old *v1alpha1.Plugin) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, metadataPath)
	s := &o.Status
	errs = append(errs, validateOneOf(s.State, statusPath.Child("state"), false, v1alpha1.PluginStatePending, v1alpha1.PluginStateStarting,
		v1alpha1.PluginStateReady, v1alpha1.PluginStateIdle, v1alpha1.PluginStateBackOff, v1alpha1.PluginStateFailed, v1alpha1.PluginStateStopping, v1alpha1.PluginStateDisabled)...)
	errs = append(errs, metav1validation.ValidateConditions(s.Conditions, statusPath.Child("conditions"))...)
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"pid", int64(s.PID)}, {"restarts", int64(s.Restarts)}, {"calls", s.Calls}, {"failures", s.Failures},
		{"observedGeneration", s.ObservedGeneration}, {"shadow.decisions", shadowStatus(s).Decisions}, {"shadow.disagreements", shadowStatus(s).Disagreements},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(c.n, statusPath.Child(c.name))...)
	}
	if s.P99 != "" {
		if _, err := time.ParseDuration(s.P99); err != nil {
			errs = append(errs, field.Invalid(statusPath.Child("p99"), s.P99, "must be a duration such as 85µs"))
		}
	}
	return errs
}

func shadowStatus(s *v1alpha1.PluginStatus) v1alpha1.PluginShadowStatus {
	return ptr.Deref(s.Shadow, v1alpha1.PluginShadowStatus{})
}
