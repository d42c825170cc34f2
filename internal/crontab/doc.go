// Package crontab reads the tables of cron, those of users and those of the
// system, and turns their lines into jobs and schedules. What it can't express it
// tells of, line by line.
package crontab
