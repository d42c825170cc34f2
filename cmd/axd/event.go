package main

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newEvent() *cobra.Command {
	cmd := &cobra.Command{
		Use: "event", Short: "Send events, which fire schedules", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd event send file-arrived --id 2026-03-29/a.csv --payload '{"file":"a.csv"}'`,
	}
	cmd.AddCommand(newEventSend(), newEventList())
	return cmd
}

func newEventSend() *cobra.Command {
	var c conn
	var id, payload string
	cmd := &cobra.Command{
		Use: "send NAME", Short: "Send an event", Args: exactlyOne("NAME"),
		Long: `Send an event, which fires the schedules that wait for its name. With --id it may
be sent again: for 24 hours that is the same event, and fires nothing.`,
		Example: `  axd event send file-arrived --id 2026-03-29/a.csv --payload '{"file":"a.csv"}'`,
	}
	cmd.Flags().StringVar(&id, "id", "", "what tells this event from others, up to 256 bytes")
	cmd.Flags().StringVar(&payload, "payload", "", "JSON `value` for what it fires, in place of the schedules' own")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if payload != "" && !json.Valid([]byte(payload)) {
			return job.Invalid("--payload", "must be JSON", payload)
		}
		e, err := cl.SendEvent(ctx, args[0], client.SendEventRequest{DedupID: id, Payload: json.RawMessage(payload)})
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), e, func(t *table) {
			t.row(e.ID, sentAs(&e))
		})
	})
}

func sentAs(e *client.Event) string {
	what := "fired " + strconv.Itoa(e.Fired)
	switch {
	case e.Deduplicated:
		return "had been sent before"
	case e.GoesOn: // filters are judged after the answer
		return what + " so far, asks further schedules"
	}
	return what
}

func newEventList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list [NAME]", Short: "List events: of one name the newest first, else by name", Args: cobra.MaximumNArgs(1),
		Long: `List events: of one name the newest first, else by name. They are kept for
7 days.`,
		Example: `  axd event list file-arrived`,
	}
	pageFlags(cmd, &limit, 50, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		list, err := cl.Events(ctx, name, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("TIME", "EVENT", "ID", "ACTOR", "FIRED", "REFUSED", "FILTERED OUT")
			for _, e := range list.Events {
				t.row(clock(&e.At, now), e.Name, cut(cmp.Or(e.DedupID, e.ID), 40), cut(cmp.Or(e.Actor, e.Address), 30),
					strconv.Itoa(e.Fired), strconv.Itoa(e.Refused), strconv.Itoa(e.FilteredOut))
			}
		})
	})
}
