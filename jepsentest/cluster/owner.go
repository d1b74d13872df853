package cluster

import (
	"fmt"
	"os"
	"strconv"
)

// Labels of everything created here. People filter by them:
//
//	docker ps --filter label=org.jepsentest.run=RUN
const (
	labelRun     = "org.jepsentest.run"     // Spec.RunID
	labelCluster = "org.jepsentest.cluster" // one Start; what Close removes
	labelNode    = "org.jepsentest.node"    // the node's name, on its two containers
	labelKeep    = "org.jepsentest.keep"    // present: not swept
	labelImage   = "org.jepsentest.image"   // on images; what they were made of
	labelHost    = "org.jepsentest.owner.host"
	labelPid     = "org.jepsentest.owner.pid"
	labelStarted = "org.jepsentest.owner.started"
)

// owner is the process that created something. A process id alone would not do: ids are used
// again, so the time at which the process started belongs to it; and they mean something only
// on the machine, and in the process namespace, in which they were given.
type owner struct {
	host    string // host name and, where there is such a thing, process namespace
	pid     int
	started string // opaque; equal for the same process only. Empty: unknown
}

// self is the owner of what this process creates.
func self() owner {
	started, _ := processStarted(os.Getpid())
	return owner{host: hostID(), pid: os.Getpid(), started: started}
}

func hostID() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	if ns := processNamespace(); ns != "" {
		name += "/" + ns
	}
	return name
}

func (o owner) labels() map[string]string {
	return map[string]string{labelHost: o.host, labelPid: strconv.Itoa(o.pid), labelStarted: o.started}
}

// ownerOf reads the owner back from labels.
func ownerOf(labels map[string]string) (owner, error) {
	pid, err := strconv.Atoi(labels[labelPid])
	if err != nil || pid <= 0 || labels[labelHost] == "" {
		return owner{}, fmt.Errorf("no owner in labels %s=%q, %s=%q", labelHost, labels[labelHost], labelPid, labels[labelPid])
	}
	return owner{host: labels[labelHost], pid: pid, started: labels[labelStarted]}, nil
}

// dead says whether it is certain that the owner has ended. here is this machine's hostID;
// started looks up the process that has the owner's id now. Every doubt, another machine or a
// start time that cannot be had, counts as alive: a leftover is a nuisance, a live run that is
// swept away is a wrong test result.
func (o owner) dead(here string, started func(pid int) (string, processState)) bool {
	if o.host != here {
		return false
	}
	now, state := started(o.pid)
	switch state {
	case processGone:
		return true
	case processExists:
		return o.started != "" && now != "" && now != o.started
	default:
		return false
	}
}

// processState is what can be said about a process id.
type processState int

const (
	processUnknown processState = iota
	processExists
	processGone
)
