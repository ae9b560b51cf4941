package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // zones, where the machine has no data base of them

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// maxCronJobName leaves room for the time that the names of its Jobs end in.
const maxCronJobName = validation.DNS1035LabelMaxLength - 11

func validateCronJob(o *batchv1.CronJob) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateCronJobSpec(&o.Spec, nil, specPath)...)
	if len(o.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(metadataPath.Child("name"), o.Name, fmt.Sprintf("must be no more than %d characters", maxCronJobName)))
	}
	return errs
}

// validateCronJobUpdate does not look at the length of the name: one that was
// stored before there was a bound can still be changed.
func validateCronJobUpdate(o, old *batchv1.CronJob) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	return append(errs, validateCronJobSpec(&o.Spec, &old.Spec, specPath)...)
}

// validateCronJobSpec checks a spec; old is nil for a new object.
func validateCronJobSpec(s, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(path.Child("schedule"), ""))
	} else {
		hadZone := old != nil && strings.Contains(old.Schedule, "TZ")
		errs = append(errs, validateSchedule(s.Schedule, hadZone, s.TimeZone != nil, path.Child("schedule"))...)
	}
	if n := s.StartingDeadlineSeconds; n != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(*n, path.Child("startingDeadlineSeconds"))...)
	}
	if s.TimeZone != nil && (old == nil || !ptr.Equal(old.TimeZone, s.TimeZone)) {
		errs = append(errs, validateTimeZone(*s.TimeZone, path.Child("timeZone"))...)
	}
	if p := path.Child("concurrencyPolicy"); s.ConcurrencyPolicy == "" {
		errs = append(errs, field.Required(p, ""))
	} else {
		errs = append(errs, supported(p, s.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	}
	var allow resources.PodAllowances
	if old != nil {
		allow = resources.AllowancesOf(&old.JobTemplate.Spec.Template)
	}
	errs = append(errs, validateJobTemplate(&s.JobTemplate.Spec, allow, path.Child("jobTemplate", "spec"))...)
	for _, n := range []struct {
		name  string
		value *int32
	}{{"successfulJobsHistoryLimit", s.SuccessfulJobsHistoryLimit}, {"failedJobsHistoryLimit", s.FailedJobsHistoryLimit}} {
		if n.value != nil {
			errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*n.value), path.Child(n.name))...)
		}
	}
	return errs
}

// validateJobTemplate: the Jobs get a selector each, so that the template has
// none.
func validateJobTemplate(s *batchv1.JobSpec, allow resources.PodAllowances, path *field.Path) field.ErrorList {
	errs := validateJobSpec(s, allow, path)
	if s.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(s.ManualSelector, false) {
		errs = append(errs, field.NotSupported(path.Child("manualSelector"), true, []string{"nil", "false"}))
	}
	return errs
}

// validateSchedule: a zone is a field of its own since 1.27; a schedule that was
// stored with one keeps it.
func validateSchedule(schedule string, hadZone, hasField bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := parseSchedule(schedule); err != nil {
		errs = append(errs, field.Invalid(path, schedule, err.Error()))
	}
	switch {
	case !strings.Contains(schedule, "TZ"):
	case !hadZone:
		errs = append(errs, field.Invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case hasField:
		errs = append(errs, field.Invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule reads a schedule. The library panics on some that begin with
// TZ=, which a client may send.
func parseSchedule(schedule string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

// timeZonePart is a part of a zone's name between slashes, as the IANA data base
// has them.
var timeZonePart = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)

func validateTimeZone(zone string, path *field.Path) field.ErrorList {
	if zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	// A name becomes the path of a file: it must not leave the data base.
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !timeZonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(zone, "Local") {
		errs = append(errs, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}
